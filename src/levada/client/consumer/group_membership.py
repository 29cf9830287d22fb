"""What membership has in common in both protocols of groups: its parts, the user's poll, and heartbeats that end."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection

from levada.client.cluster import Cluster
from levada.client.consumer.background import InPoll
from levada.client.consumer.commits import Commits
from levada.client.consumer.coordinator import GroupCoordinatorLookup
from levada.client.consumer.member_state import MemberState
from levada.client.consumer.poll_watch import PollWatch
from levada.client.consumer.subscription import Subscriptions
from levada.client.consumer.wanted_topics import WantedTopics
from levada.client.types import GroupMetadata, TopicPartition
from levada.model.error_codes import ErrorCode


class GroupMembership(ABC):
    """Of one consumer, in a group."""

    def __init__(
        self,
        cluster: Cluster,
        coordinator: GroupCoordinatorLookup,
        member: MemberState,
        subscriptions: Subscriptions,
        commits: Commits,
    ) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self._cluster = cluster
        self._clock = cluster.world.clock
        self._coordinator = coordinator
        self._member = member
        self._subscriptions = subscriptions
        self._commits = commits
        self._topics = WantedTopics(cluster, subscriptions)
        self._watch = PollWatch(self._clock, cluster.options["max.poll.interval.ms"])
        self._beating: asyncio.Task[None] | None = None
        self._in_poll = InPoll()
        self._in_poll.on_wanted = self._tell
        self._rebalancing: asyncio.Task[None] | None = None
        self._fatal: BaseException | None = None
        self._api_timeout_ms: int = cluster.options["default.api.timeout.ms"]
        member.on_refusal = self._on_refusal

    def group_metadata(self) -> GroupMetadata:
        member = self._member
        return member.shown if member.shown and self._subscriptions.is_group_managed else member.metadata()

    def polled(self, now_ms: int) -> None:
        self._watch.polled(now_ms)

    @abstractmethod
    def _on_refusal(self, generation: int, code: ErrorCode) -> None:
        """A commit was refused."""

    def _tell(self) -> None:
        self.on_change()

    def _has_work(self) -> bool:
        """Whether there is something to read while the group decides."""
        return any(not state.is_being_revoked for _, state in self._subscriptions.states())

    def _on_beats_over(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None:
            self._fatal = task.exception()
            self._tell()


def text_of(partitions: Collection[TopicPartition]) -> str:
    """For the log."""
    return ",".join(str(partition) for partition in sorted(partitions))
