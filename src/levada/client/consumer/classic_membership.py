"""Membership in a classic group: its members assign themselves their partitions, and the leader decides."""

import asyncio
import logging
from dataclasses import replace

from levada.client.assignors import RebalanceProtocol
from levada.client.cluster import Cluster, ClusterView, Deadline
from levada.client.consumer.background import patience, spawn, stop
from levada.client.consumer.classic_heartbeats import ClassicHeartbeats
from levada.client.consumer.classic_join import ClassicJoin, Joined, Lost
from levada.client.consumer.commits import Commits
from levada.client.consumer.coordinator import GroupCoordinatorLookup
from levada.client.consumer.group_membership import GroupMembership, text_of
from levada.client.consumer.listening import assign, revoke, stop_reading
from levada.client.consumer.member_state import NO_GENERATION, MemberState
from levada.client.consumer.subscription import Subscriptions
from levada.client.errors import KafkaError
from levada.client.types import TopicPartition
from levada.model.error_codes import ErrorCode

logger = logging.getLogger("levada.client")

CLOSED = "the consumer is being closed"
UNSUBSCRIBED = "the consumer unsubscribed from all topics"


class ClassicMembership(GroupMembership):
    """Eager or cooperative, as the assignors allow (KIP-429)."""

    def __init__(
        self,
        cluster: Cluster,
        coordinator: GroupCoordinatorLookup,
        member: MemberState,
        subscriptions: Subscriptions,
        commits: Commits,
    ) -> None:
        super().__init__(cluster, coordinator, member, subscriptions, commits)
        self._joiner = ClassicJoin(cluster, coordinator, member, subscriptions, self._topics)
        self._beats = ClassicHeartbeats(cluster, coordinator, member, self._watch, self._on_beat)
        self._is_prepared = False
        self._reason = ""
        """Why it has to join, while it has to."""
        self._joined: Joined | None = None
        self._judged: ClusterView | None = None
        """The view in which a leader has looked for changes of what it assigned."""
        cluster.listeners.append(lambda view: self._look())

    async def advance(self, deadline: Deadline) -> None:
        if self._fatal is not None:
            raise self._fatal
        if not self._subscriptions.is_group_managed:
            return
        self._topics.update()
        if self._beating is None:
            self._beating = spawn(self._beats.run())
            self._beating.add_done_callback(self._on_beats_over)
        while self._rebalancing is not None or self._must_join():
            if self._rebalancing is None:
                self._rebalancing = self._in_poll.start(self._rebalance())
            task = self._rebalancing
            if not await self._in_poll.serve(task, patience(deadline, self._has_work)):
                return
            self._watch.polled(self._clock.monotonic_ms())
            if self._rebalancing is not task:
                # The listener has unsubscribed.
                return
            self._rebalancing = None
            self._raise_from(task)

    async def unsubscribe(self) -> None:
        await self._part(Deadline(self._clock, self._api_timeout_ms), UNSUBSCRIBED, leaves=None)

    async def close(self, deadline: Deadline, *, leaves: bool | None = None) -> None:
        try:
            await self._part(deadline, CLOSED, leaves=leaves)
        finally:
            await stop(self._beating)
            self._coordinator.close()

    # Joining

    def _must_join(self) -> bool:
        if not self._reason:
            self._reason = self._why_join()
        return bool(self._reason)

    def _why_join(self) -> str:
        joined = self._joined
        if joined is None or not self._member.is_member:
            return "need to (re-)join the group"
        if self._subscriptions.topics != joined.topics:
            return "the subscription has changed"
        if joined.led is not None and self._judged is not self._cluster.view:
            self._judged = self._cluster.view
            if self._topics.counts(self._topics.of_group) != joined.led:
                return "cached metadata has changed"
        return ""

    async def _rebalance(self) -> None:
        """From one generation to the next; goes on in the background where a poll does not wait."""
        if not self._is_prepared:
            await self._prepare()
            self._is_prepared = True
        await self._topics.look_for_matches()
        reason, self._reason = self._reason, ""
        try:
            joined = await self._joiner.join(reason)
        except Lost:
            self._joined = None
            self._is_prepared = False
            return
        except BaseException:
            self._reason = reason
            raise
        self._is_prepared = False
        self._joined = joined
        self._judged = None
        self._beats.begin()
        logger.info(
            "joined group=%r generation=%d member=%r leads=%s",
            self._member.group_id, joined.generation, self._member.member_id, joined.led is not None,
        )  # fmt: skip
        await self._take(joined)

    async def _prepare(self) -> None:
        """Commit and give up what the next generation may give to others."""
        going = self._going()
        if self._member.is_member:
            stop_reading(self._subscriptions, going)
            await self._commits.auto_commit_now(Deadline(self._clock, self._watch.max_interval_ms))
        if self._going() or (self._is_eager and self._member.is_member):
            await self._in_poll.run(self._revoke_before_join)
        if not self._member.is_member:
            self._joiner.owned_since = NO_GENERATION

    async def _revoke_before_join(self) -> None:
        # The generation may have been lost since the rebalance began, and with it everything.
        going, is_lost = self._going(), not self._member.is_member
        logger.info("giving up group=%r lost=%s partitions=%s", self._member.group_id, is_lost, text_of(going))
        self._commits.forget(going)
        await revoke(self._subscriptions, going, is_lost=is_lost)

    def _going(self) -> list[TopicPartition]:
        owned = self._subscriptions.assigned()
        if self._is_eager or not self._member.is_member:
            return owned
        return [partition for partition in owned if partition.topic not in self._subscriptions.topics]

    async def _take(self, joined: Joined) -> None:
        """Go from what is owned to what is assigned."""
        strange = sorted({one.topic for one in joined.partitions if not self._topics.matches(one.topic)})
        if strange:
            # The leader assigned by what this member wanted before; once more, with what it wants now.
            self._reason = f"assigned partitions of {strange} do not match the subscription"
            return
        wanted = frozenset(joined.partitions)
        going = [partition for partition in self._subscriptions.assigned() if partition not in wanted]
        if going:
            stop_reading(self._subscriptions, going)
            await self._commits.auto_commit_now(Deadline(self._clock, self._watch.max_interval_ms))
            logger.info("giving up group=%r partitions=%s", self._member.group_id, text_of(going))
            self._commits.forget(going)
            await self._in_poll.run(lambda: revoke(self._subscriptions, going, is_lost=not self._member.is_member))
            # Others wait for these: the next generation gives them away (KIP-429).
            self._reason = "need to revoke partitions and re-join"
        await self._in_poll.run(lambda: self._assign(joined))

    async def _assign(self, joined: Joined) -> None:
        if self._member.generation != joined.generation:
            return
        more = frozenset(one.topic for one in joined.partitions)
        self._topics.accept(more)
        self._joined = replace(joined, topics=joined.topics | more)
        self._joiner.owned_since = joined.generation
        joined.assignor.on_assignment(joined.partitions, joined.generation)
        owned = frozenset(self._subscriptions.assigned())
        coming = [partition for partition in joined.partitions if partition not in owned]
        await assign(self._subscriptions, coming)

    @property
    def _is_eager(self) -> bool:
        return self._joiner.protocol is RebalanceProtocol.EAGER

    def _raise_from(self, done: "asyncio.Task[None]") -> None:
        """Raise what the rebalance failed with, inside the next poll."""
        error = None if done.cancelled() else done.exception()
        if error is None:
            return
        if isinstance(error, KafkaError) and error.fatal:
            self._fatal = error
        raise error

    # Leaving

    async def _part(self, deadline: Deadline, reason: str, *, leaves: bool | None) -> None:
        if self._rebalancing is not None:
            await stop(self._rebalancing)
            self._rebalancing = None
            self._is_prepared = False
            # A join that waits for the others would hold up everything that is said after it.
            self._coordinator.hang_up()
        await self._commits.auto_commit_now(deadline)
        try:
            self._commits.run_callbacks()
            owned = self._subscriptions.assigned()
            if owned and self._subscriptions.is_group_managed:
                await revoke(self._subscriptions, owned, is_lost=not self._member.is_member)
                self._commits.forget(owned)
        finally:
            self._joined = None
            self._joiner.owned_since = NO_GENERATION
            await self._beats.leave(reason, deadline, leaves=leaves)

    # News from the background

    def _look(self) -> None:
        """The view of the cluster has changed."""
        if self._joined is not None:
            self.on_change()

    def _on_beat(self, code: ErrorCode) -> None:
        """The coordinator's answer to a heartbeat was not that all is well."""
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._reason = self._reason or "group is already rebalancing"
        elif code not in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self._fatal = self._coordinator.refusal(code)
        self.on_change()

    def _on_refusal(self, generation: int, code: ErrorCode) -> None:
        if generation == self._member.generation:
            self._beats.answered(code)
