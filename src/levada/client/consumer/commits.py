"""Committing positions and asking for what is committed."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from levada.client.cluster import Cluster, Deadline
from levada.client.consumer.background import LONGEST_WAIT_S, spawn, stop
from levada.client.consumer.coordinator import GroupCoordinatorLookup
from levada.client.consumer.member_state import NO_GENERATION, MemberState, Phase
from levada.client.consumer.offsets_wire import (
    commit_codes,
    commit_request,
    fetch_code,
    fetch_request,
    fetched_offsets,
    newest_version,
)
from levada.client.consumer.subscription import AssignedPartition, Subscriptions
from levada.client.errors import CommitFailed, IllegalState, KafkaError, RebalanceInProgress, TimedOut, error_for
from levada.client.types import GroupMetadata, OffsetAndMetadata, TopicPartition
from levada.model.error_codes import ErrorCode
from levada.protocol.api import ApiKey
from levada.protocol.messages.offset_commit import OffsetCommitRequest
from levada.protocol.messages.offset_fetch import OffsetFetchRequest

logger = logging.getLogger("levada.client")

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
Callback = Callable[[Offsets, KafkaError | None], None]

LOST = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.FENCED_INSTANCE_ID,
)
REBALANCING = (
    "the offsets are not committed: the group is rebalancing. Poll to take part in it, "
    "then commit what is still assigned"
)
NOT_ALONE = (
    "the offsets are not committed: the group has members that subscribe, and this consumer is none of them; "
    "give a consumer that assigns itself its partitions a group.id of its own"
)
SETTING = "default.api.timeout.ms"


PARTITION_FAULTS = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.OFFSET_METADATA_TOO_LARGE,
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
)
"""What is wrong with one partition's offset, and not with the others'."""


@dataclass(frozen=True, slots=True)
class _Order:
    """A commit that was asked for."""

    offsets: Offsets
    held: Mapping[TopicPartition, AssignedPartition]
    """What was assigned then: once it is gone, even if it comes back, another member may have committed more."""
    settle: Callback | None = None


class Commits:
    """One consumer's; what was asked for first is committed first."""

    def __init__(
        self,
        cluster: Cluster,
        coordinator: GroupCoordinatorLookup,
        member: MemberState,
        subscriptions: Subscriptions,
        on_commit: Callable[[Offsets], None],
    ) -> None:
        self._cluster = cluster
        self._clock = cluster.world.clock
        self._coordinator = coordinator
        self._member = member
        self._subscriptions = subscriptions
        self._on_commit = on_commit
        options = cluster.options
        self._has_group = options["group.id"] is not None
        self._speaks_next = options["group.protocol"] == "consumer"
        self._is_automatic: bool = options["enable.auto.commit"] and self._has_group
        self._interval_ms: int = options["auto.commit.interval.ms"]
        self._wants_stable = options["isolation.level"] == "read_committed"
        self._api_timeout_ms: int = options["default.api.timeout.ms"]
        self._due_ms: int | None = None
        self._queue: deque[_Order] = deque()
        self._sender: asyncio.Task[None] | None = None
        self._settled: deque[tuple[Callback, Offsets, KafkaError | None]] = deque()
        self._last: dict[TopicPartition, OffsetAndMetadata] = {}
        """The last that was committed for each partition, by this consumer."""

    async def commit(self, offsets: Offsets, deadline: Deadline) -> None:
        """Commit and wait; what was asked for before is committed before."""
        self._check_group()
        await self._drain(deadline)
        try:
            if offsets:
                faults = await self._commit([self._order(offsets)], deadline)
                for fault in faults.values():
                    raise fault
        finally:
            self.run_callbacks()

    def commit_soon(self, offsets: Offsets, callback: Callback | None) -> None:
        """Commit without waiting; the callback is called inside a later poll, commit or close."""
        self._check_group()

        def settle(offsets: Offsets, error: KafkaError | None) -> None:
            if callback is not None:
                self._settled.append((callback, offsets, error))
            elif error is not None:
                logger.warning("asynchronous commit failed group=%r: %s", self._member.group_id, error)

        self._enqueue(dict(offsets), settle)

    def run_callbacks(self) -> None:
        """Tell what became of asynchronous commits, in their order."""
        while self._settled:
            callback, offsets, error = self._settled.popleft()
            callback(offsets, error)

    async def close(self) -> None:
        """Give up what is under way and tell the callbacks of those commits."""
        await stop(self._sender)
        while self._queue:
            order = self._queue.popleft()
            assert order.settle is not None
            order.settle(order.offsets, IllegalState("the consumer was closed before the commit was answered"))

    async def committed(
        self, partitions: Collection[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None where it has nothing."""
        self._check_group()
        if not partitions:
            return {}
        wanted = list(partitions)

        async def attempt() -> dict[TopicPartition, OffsetAndMetadata | None]:
            found = await self._fetch(wanted)
            return {partition: found.get(partition) for partition in wanted}

        return await self._cluster.persist(
            attempt,
            deadline,
            f"the committed offsets of group {self._member.group_id!r} are not known",
            setting=SETTING,
        )

    # Automatic commits

    async def auto_commit_if_due(self) -> None:
        """Begin to commit what was handed out before this poll, every auto.commit.interval.ms."""
        if not self._is_automatic:
            return
        now_ms = self._clock.monotonic_ms()
        if self._due_ms is None:
            self._due_ms = now_ms + self._interval_ms
        if now_ms < self._due_ms or (self._subscriptions.is_group_managed and self._member.phase is not Phase.IN):
            return
        self._due_ms = now_ms + self._interval_ms
        offsets = self._subscriptions.consumed()
        if offsets and self._sender is None:
            self._enqueue(offsets, self._log_failure)

    async def auto_commit_now(self, deadline: Deadline) -> None:
        """Before partitions go: commit what was handed out, if that is done automatically; failures are logged.

        What the user has asked to commit is waited for in any case.
        """
        try:
            await self._drain(deadline)
            offsets = {
                partition: position
                for partition, position in (self._subscriptions.consumed() if self._is_automatic else {}).items()
                if self._last.get(partition) != position
            }
            if offsets:
                await self._commit([self._order(offsets)], deadline)
        except KafkaError as error:
            self._log_failure({}, error)
        self._due_ms = self._clock.monotonic_ms() + self._interval_ms

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Others may commit for these from now on."""
        for partition in partitions:
            self._last.pop(partition, None)

    def _log_failure(self, _offsets: Offsets, error: KafkaError | None) -> None:
        if error is not None:
            logger.warning("automatic commit failed group=%r: %s", self._member.group_id, error)

    # Inside

    def _check_group(self) -> None:
        if not self._has_group:
            raise IllegalState("committed offsets belong to a group: set group.id")

    def _order(self, offsets: Offsets, settle: Callback | None = None) -> _Order:
        held = {at: self._subscriptions.state(at) for at in offsets if self._subscriptions.is_assigned(at)}
        return _Order(offsets, held, settle)

    def _enqueue(self, offsets: Offsets, settle: Callback) -> None:
        self._queue.append(self._order(offsets, settle))
        if self._sender is None:
            self._sender = spawn(self._send_queue())

    async def _send_queue(self) -> None:
        """Commit what has gathered; of several positions of a partition the last counts."""
        try:
            while self._queue:
                batch = list(self._queue)
                error: KafkaError | None = None
                faults: dict[TopicPartition, KafkaError] = {}
                try:
                    faults = await self._commit(batch, Deadline(self._clock, self._api_timeout_ms))
                except KafkaError as failure:
                    error = failure
                for order in batch:
                    self._queue.popleft()
                    fault = next((faults[at] for at in order.offsets if at in faults), None)
                    assert order.settle is not None
                    order.settle(order.offsets, error or fault)
        finally:
            self._sender = None

    async def _drain(self, deadline: Deadline) -> None:
        """Wait for the asynchronous commits: one that is overtaken would take back what came after it."""
        while self._sender is not None:
            try:
                async with asyncio.timeout(min(deadline.remaining_ms() / 1_000, LONGEST_WAIT_S)):
                    await asyncio.shield(self._sender)
            except TimeoutError as error:
                group_id = self._member.group_id
                raise TimedOut(f"earlier commits of group {group_id!r} are still under way; not committed") from error

    async def _commit(self, orders: Sequence[_Order], deadline: Deadline) -> dict[TopicPartition, KafkaError]:
        """Until it is done; the partitions that were refused for reasons of their own."""
        offsets = {partition: each for order in orders for partition, each in order.offsets.items()}
        held = {partition: state for order in orders for partition, state in order.held.items()}

        async def attempt() -> dict[TopicPartition, KafkaError]:
            self._check_held(held)
            return await self._commit_once(offsets)

        what = f"the offsets of group {self._member.group_id!r} were not committed"
        faults = await self._cluster.persist(attempt, deadline, what, setting=SETTING)
        accepted = {partition: each for partition, each in offsets.items() if partition not in faults}
        self._last.update(accepted)
        if accepted:
            self._on_commit(accepted)
        return faults

    def _check_held(self, held: Mapping[TopicPartition, AssignedPartition]) -> None:
        mine = self._subscriptions
        if not all(mine.is_assigned(partition) and mine.state(partition) is state for partition, state in held.items()):
            raise CommitFailed(self._member.why_out)

    async def _commit_once(self, offsets: Offsets) -> dict[TopicPartition, KafkaError]:
        who, view = self._committer(), self._cluster.view

        def build(version: int) -> OffsetCommitRequest:
            return commit_request(who, offsets, view)

        response = await self._coordinator.ask(ApiKey.OFFSET_COMMIT, build, at_most=newest_version(offsets, view))
        refused = {one: code for one, code in commit_codes(response, view).items() if code != ErrorCode.NONE}
        for partition, code in refused.items():
            if code not in PARTITION_FAULTS:
                raise self._why(who, partition, code)
        return {one: error_for(code, context=f"{one} in group {who.group_id!r}") for one, code in refused.items()}

    def _committer(self) -> GroupMetadata:
        """The member to commit as; an error while it is open whose the partitions are."""
        member = self._member
        if not self._subscriptions.is_group_managed:
            return GroupMetadata(member.group_id, group_instance_id=member.instance_id)
        if member.phase is Phase.REBALANCING:
            raise RebalanceInProgress(REBALANCING)
        if not member.is_member:
            raise CommitFailed(member.why_out)
        return member.metadata()

    def _why(self, who: GroupMetadata, partition: TopicPartition, code: int) -> KafkaError:
        member = self._member
        if code == ErrorCode.STALE_MEMBER_EPOCH:
            # The next heartbeat's answer has the new epoch (KIP-848).
            stale = error_for(code, context=f"group {who.group_id!r}")
            stale.retriable = True
            return stale
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            member.on_refusal(who.generation_id, ErrorCode.REBALANCE_IN_PROGRESS)
            return RebalanceInProgress(REBALANCING)
        if code in LOST:
            if who.generation_id == NO_GENERATION:
                return CommitFailed(NOT_ALONE, code=ErrorCode(code))
            if who.generation_id != member.generation and member.phase is Phase.REBALANCING:
                return RebalanceInProgress(REBALANCING)
            member.on_refusal(who.generation_id, ErrorCode(code))
            if code == ErrorCode.FENCED_INSTANCE_ID:
                return self._coordinator.refusal(code)
            return CommitFailed(code=ErrorCode(code))
        refusal = self._coordinator.refusal(code)
        if refusal.refreshes_metadata:
            self._cluster.refresh_soon()
        return error_for(code, context=f"{partition} in group {who.group_id!r}")

    async def _fetch(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        who, view = self._asker(), self._cluster.view

        def build(version: int) -> OffsetFetchRequest:
            return fetch_request(who, partitions, view, version, require_stable=self._wants_stable)

        response = await self._coordinator.ask(ApiKey.OFFSET_FETCH, build, at_most=newest_version(partitions, view))
        code = fetch_code(response)
        if code == ErrorCode.NONE:
            return fetched_offsets(response, view)
        error = self._coordinator.refusal(code)
        if code in (ErrorCode.STALE_MEMBER_EPOCH, *LOST) and who.generation_id != NO_GENERATION:
            # Heartbeats find out what has become of this member, and then it asks with what is true.
            error.retriable = True
        if error.refreshes_metadata:
            self._cluster.refresh_soon()
        raise error

    def _asker(self) -> GroupMetadata:
        """Members of the new protocol show their epoch; others may ask without naming a member."""
        if self._speaks_next and self._subscriptions.is_group_managed:
            return self._member.metadata()
        return GroupMetadata(self._member.group_id)
