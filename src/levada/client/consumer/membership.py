"""How a consumer takes part in its group: the contract, and the choice of the protocol."""

from collections.abc import Callable, Mapping
from typing import Protocol

from levada.client.cluster import Cluster, Deadline
from levada.client.consumer.classic_membership import ClassicMembership
from levada.client.consumer.commits import Commits
from levada.client.consumer.coordinator import GroupCoordinatorLookup
from levada.client.consumer.kip848_membership import Kip848Membership
from levada.client.consumer.member_state import MemberState
from levada.client.consumer.subscription import Subscriptions
from levada.client.errors import IllegalState
from levada.client.types import GroupMetadata, OffsetAndMetadata, TopicPartition


class Membership(Protocol):
    """One consumer's place in its group; heartbeats go on in the background, the rest happens inside poll."""

    on_change: Callable[[], None]
    """Called when there is something for `advance` to do: set it to what wakes a poll that waits for records."""

    def group_metadata(self) -> GroupMetadata: ...

    async def advance(self, deadline: Deadline) -> None:
        """Join, rejoin, tell the listener, change the assignment; at once when there is nothing to do.

        A join that is not finished at the deadline goes on in the background, and a later call finishes it. While the
        consumer keeps partitions that it can read, a join is not waited for.
        """

    def polled(self, now_ms: int) -> None:
        """The user's code is alive, by the monotonic clock; to be called whenever poll starts, and while it waits."""

    async def unsubscribe(self) -> None:
        """Commit, tell the listener and leave the group; the next `advance` with a subscription joins again."""

    async def close(self, deadline: Deadline, *, leaves: bool | None = None) -> None:
        """Commit, tell the listener, and leave; a static member stays in its group unless it is told to leave."""


def group_side(
    cluster: Cluster,
    subscriptions: Subscriptions,
    on_commit: Callable[[Mapping[TopicPartition, OffsetAndMetadata]], None],
) -> tuple[Membership, Commits]:
    """What a consumer needs to be in a group; `on_commit` hears of each commit that succeeded."""
    options = cluster.options
    group_id: str | None = options["group.id"]
    member = MemberState(group_id or "", options["group.instance.id"])
    coordinator = GroupCoordinatorLookup(cluster, group_id or "")
    commits = Commits(cluster, coordinator, member, subscriptions, on_commit)
    if group_id is None:
        return NoGroup(subscriptions), commits
    if options["group.protocol"] == "consumer":
        return Kip848Membership(cluster, coordinator, member, subscriptions, commits), commits
    return ClassicMembership(cluster, coordinator, member, subscriptions, commits), commits


class NoGroup:
    """The membership of a consumer without a group."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self._subscriptions = subscriptions

    def group_metadata(self) -> GroupMetadata:
        raise IllegalState("this consumer has no group.id, so it is in no group")

    async def advance(self, deadline: Deadline) -> None:
        if self._subscriptions.is_group_managed:
            raise IllegalState("subscribing needs a group: set group.id, or assign partitions instead")

    def polled(self, now_ms: int) -> None:
        return

    async def unsubscribe(self) -> None:
        return

    async def close(self, deadline: Deadline, *, leaves: bool | None = None) -> None:
        return
