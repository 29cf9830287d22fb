"""Membership in a group of the new protocol: the coordinator assigns, members give up before others get (KIP-848)."""

import asyncio
import logging

from levada.client.cluster import Cluster, ClusterView, Deadline
from levada.client.consumer.background import happens, patience, spawn, stop
from levada.client.consumer.commits import Commits
from levada.client.consumer.coordinator import GroupCoordinatorLookup
from levada.client.consumer.group_membership import GroupMembership, text_of
from levada.client.consumer.kip848_heartbeats import HeartbeatState, Kip848Heartbeats
from levada.client.consumer.kip848_report import Kip848Report
from levada.client.consumer.listening import assign, revoke, stop_reading
from levada.client.consumer.member_state import MemberState
from levada.client.consumer.subscription import Subscriptions
from levada.client.types import TopicPartition
from levada.model.error_codes import ErrorCode
from levada.protocol.declare import NO_UUID
from levada.protocol.messages.consumer_group_heartbeat import Assignment

logger = logging.getLogger("levada.client")


class Kip848Membership(GroupMembership):
    """Heartbeats in the background bring what this member shall have; polls bring it there."""

    def __init__(
        self,
        cluster: Cluster,
        coordinator: GroupCoordinatorLookup,
        member: MemberState,
        subscriptions: Subscriptions,
        commits: Commits,
    ) -> None:
        super().__init__(cluster, coordinator, member, subscriptions, commits)
        self._report = Kip848Report(cluster.options, subscriptions)
        self._beats = Kip848Heartbeats(cluster, coordinator, member, self._report, self._watch)
        self._beats.on_change = self._tell
        self._reached: Assignment | None = None
        """The target that the assignment follows."""
        self._lacks: ClusterView | None = None
        """The view in which some of the target's topics have no name."""
        self._told = 0
        """The version of the subscription that the coordinator hears of."""
        self._wake_signal = asyncio.Event()
        cluster.listeners.append(lambda view: self._tell())

    async def advance(self, deadline: Deadline) -> None:
        self._raise_complaint()
        if not self._subscriptions.is_group_managed:
            return
        self._topics.update()
        self._take_part()
        while True:
            if self._rebalancing is None and self._must_reconcile():
                self._rebalancing = self._in_poll.start(self._reconcile())
            if self._rebalancing is not None:
                task = self._rebalancing
                if not await self._in_poll.serve(task, patience(deadline, self._has_work)):
                    return
                self._watch.polled(self._clock.monotonic_ms())
                if self._rebalancing is not task:
                    # The listener has unsubscribed.
                    return
                self._rebalancing = None
                task.result()
            elif self._reached is not None or not await happens(self._wake_signal, deadline.remaining_ms()):
                return
            self._raise_complaint()

    async def unsubscribe(self) -> None:
        await self._part(Deadline(self._clock, self._api_timeout_ms), leaves=None)

    async def close(self, deadline: Deadline, *, leaves: bool | None = None) -> None:
        try:
            await self._part(deadline, leaves=leaves)
        finally:
            await stop(self._beating)
            self._coordinator.close()

    def _take_part(self) -> None:
        """See to it that heartbeats go out, and soon where there is something new to tell."""
        if self._beating is None:
            self._beating = spawn(self._beats.run())
            self._beating.add_done_callback(self._on_beats_over)
        if self._beats.state is HeartbeatState.OUT:
            self._reached = None
            self._beats.join()
        elif self._told != self._subscriptions.version:
            self._beats.hurry()
        self._told = self._subscriptions.version

    # Reconciliation

    def _must_reconcile(self) -> bool:
        if self._beats.state is HeartbeatState.LOST:
            return True
        target = self._beats.target
        return target is not None and (
            target is not self._reached or (self._lacks is not None and self._lacks is not self._cluster.view)
        )

    async def _reconcile(self) -> None:
        """From what is owned to what the coordinator wants; goes on in the background where a poll does not wait."""
        if self._beats.state is HeartbeatState.LOST:
            await self._in_poll.run(self._lose)
            return
        target = self._beats.target
        if target is None:
            return
        names, is_complete = self._named(target)
        going = self._going(names)
        if going:
            stop_reading(self._subscriptions, going)
            await self._commits.auto_commit_now(Deadline(self._clock, self._watch.max_interval_ms))
        await self._in_poll.run(lambda: self._follow(target, names, is_complete=is_complete))

    async def _follow(self, target: Assignment, names: dict[TopicPartition, bytes], *, is_complete: bool) -> None:
        if self._beats.target is not target:
            # The next round sees to what has become of it.
            return
        going = self._going(names)
        kept = frozenset(self._subscriptions.assigned()).difference(going)
        coming = [partition for partition in names if partition not in kept]
        is_first = self._reached is None
        self._reached = target
        self._lacks = None if is_complete else self._cluster.view
        if going:
            logger.info("giving up group=%r partitions=%s", self._member.group_id, text_of(going))
            self._commits.forget(going)
            try:
                await revoke(self._subscriptions, going)
            finally:
                for partition in going:
                    self._report.ids.pop(partition, None)
                self._beats.hurry()
        if self._beats.target is not target:
            return
        if coming or is_first:
            logger.info("taking up group=%r partitions=%s", self._member.group_id, text_of(coming))
            self._report.ids.update({partition: names[partition] for partition in coming})
            self._beats.hurry()
            await assign(self._subscriptions, coming)

    def _going(self, names: dict[TopicPartition, bytes]) -> list[TopicPartition]:
        """What is not wanted any more; a topic that was deleted and made again is another one."""
        ids = self._report.ids
        return [one for one in self._subscriptions.assigned() if names.get(one) != ids.get(one, NO_UUID)]

    def _named(self, target: Assignment) -> tuple[dict[TopicPartition, bytes], bool]:
        """The target's partitions with the ids of their topics; those whose names are not known yet are left out."""
        known = self._cluster.view.names
        names = {
            TopicPartition(known[one.topic_id], index): one.topic_id
            for one in target.topic_partitions
            if one.topic_id in known
            for index in one.partitions
        }
        is_complete = all(one.topic_id in known for one in target.topic_partitions)
        if not is_complete:
            self._cluster.refresh_soon()
        return names, is_complete

    async def _lose(self) -> None:
        """Tell the user, and join anew."""
        owned = self._subscriptions.assigned()
        self._reached = self._lacks = None
        try:
            if owned:
                self._commits.forget(owned)
                await revoke(self._subscriptions, owned, is_lost=True)
        finally:
            if self._beats.state is HeartbeatState.LOST and self._fatal is None and self._beats.complaint is None:
                self._beats.join()

    # Leaving

    async def _part(self, deadline: Deadline, *, leaves: bool | None) -> None:
        await stop(self._rebalancing)
        self._rebalancing = None
        await self._commits.auto_commit_now(deadline)
        try:
            self._commits.run_callbacks()
            owned = self._subscriptions.assigned()
            if owned and self._subscriptions.is_group_managed:
                self._commits.forget(owned)
                await revoke(self._subscriptions, owned, is_lost=not self._member.is_member)
        finally:
            self._reached = self._lacks = None
            await self._beats.leave(deadline, leaves=leaves)

    # News from the background

    def _raise_complaint(self) -> None:
        complaint, self._beats.complaint = self._beats.complaint, None
        if complaint is not None and complaint.fatal:
            self._fatal = complaint
        if self._fatal is not None or complaint is not None:
            raise self._fatal or complaint or AssertionError

    def _tell(self) -> None:
        self._wake_signal.set()
        super()._tell()

    def _on_refusal(self, generation: int, code: ErrorCode) -> None:
        if generation != self._member.generation or code == ErrorCode.REBALANCE_IN_PROGRESS:
            return
        if code == ErrorCode.FENCED_INSTANCE_ID:
            self._fatal = self._coordinator.refusal(code)
        self._beats.lose(f"{code.name} for a commit")
