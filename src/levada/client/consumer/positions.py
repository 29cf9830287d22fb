"""Finds where to read each partition, and makes sure that the place still exists: runs beside the polls."""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from levada.client.cluster import NO_EPOCH, NO_NODE, Cluster, Deadline
from levada.client.consumer.epoch_check import EpochEnd, epoch_ends
from levada.client.consumer.offset_lookup import EARLIEST, LATEST, UNKNOWN_OFFSET, FoundOffset, OffsetLookup
from levada.client.consumer.retrying_task import RetryingTask
from levada.client.consumer.subscription import AssignedPartition, Position, Reset, Subscriptions
from levada.client.errors import KafkaError, LogTruncated, NoOffsetForPartition
from levada.client.options import OffsetResetStrategy
from levada.client.types import OffsetAndMetadata, TopicPartition

logger = logging.getLogger("levada.client")


class CommittedOffsets(Protocol):
    async def committed(
        self, partitions: Collection[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, OffsetAndMetadata | None]: ...


class Positions:
    """From nothing to a position: the committed offset, else what the policy says. Checks them when leaders change."""

    def __init__(
        self,
        cluster: Cluster,
        subscriptions: Subscriptions,
        lookup: OffsetLookup,
        policy: OffsetResetStrategy,
        on_change: Callable[[], None],
    ) -> None:
        self.commits: CommittedOffsets | None = None
        """None without a group: there is nothing to ask for."""
        self._cluster = cluster
        self._subscriptions = subscriptions
        self._lookup = lookup
        self._policy = policy
        self._seen_assignment = -1
        # Apart from each other: a coordinator that cannot be reached must not hold up what leaders are asked.
        self._tasks = (
            RetryingTask(cluster.backoff, self._lacks_positions, [self._begin_at_committed], on_change),
            RetryingTask(
                cluster.backoff, self._needs_leaders, [self._reset, self._check_epochs, self._find_leaders], on_change
            ),
        )

    @property
    def has_policy(self) -> bool:
        return self._policy.where != "none"

    def start_if_needed(self) -> None:
        """See to the partitions that have no position, or none that is sound; returns at once."""
        if self._seen_assignment != self._subscriptions.assignment_version:
            self._seen_assignment = self._subscriptions.assignment_version
            self.retry_now()
        for task in self._tasks:
            task.start_if_needed()

    def retry_now(self) -> None:
        """Something changed that may help those that are stuck."""
        for task in self._tasks:
            task.retry_now()

    def raise_failure(self) -> None:
        """What came in the way, once."""
        for task in self._tasks:
            task.raise_failure()

    async def settle(self) -> None:
        """Wait until the work that is under way is done, or has failed."""
        for task in self._tasks:
            await task.settle()

    def close(self) -> None:
        for task in self._tasks:
            task.close()

    # Which need care

    def is_sound(self, partition: TopicPartition, state: AssignedPartition) -> bool:
        """Whether the position was checked against the leader that there is now, or need not be."""
        topic = self._cluster.view.topics.get(partition.topic)
        if topic is None or partition.partition >= len(topic.partitions):
            return False
        epoch = topic.partitions[partition.partition].leader_epoch
        if state.validated_epoch == epoch:
            return True
        position = state.position
        if position is None or state.reset is not None:
            return False
        if position.offset_epoch in (NO_EPOCH, epoch) or epoch == NO_EPOCH:
            state.validated_epoch = epoch
            return True
        return False

    def _lacks_positions(self) -> bool:
        return bool(self._subscriptions.without_position())

    def _needs_leaders(self) -> bool:
        return any(
            state.reset is not None
            or (state.position is not None and not self.is_sound(partition, state))
            or self._cluster.view.leader(*partition) == NO_NODE
            for partition, state in self._subscriptions.states()
        )

    # The work

    async def _begin_at_committed(self) -> bool:
        missing = self._subscriptions.without_position()
        if not missing:
            return False
        committed: Mapping[TopicPartition, OffsetAndMetadata | None] = {}
        if self.commits is not None:
            timeout_ms = self._cluster.options["default.api.timeout.ms"]
            committed = await self.commits.committed(missing, Deadline(self._cluster.world.clock, timeout_ms))
        for partition in self._still(missing):
            state = self._subscriptions.state(partition)
            if state.position is not None or state.reset is not None:
                continue
            offset = committed.get(partition)
            if offset is None:
                state.reset = Reset.POLICY
                self._tasks[1].start_if_needed()
            else:
                epoch = NO_EPOCH if offset.leader_epoch is None else offset.leader_epoch
                self._subscriptions.seek(partition, Position(offset.offset, epoch))
        return False

    async def _reset(self) -> bool:
        wanted: dict[TopicPartition, tuple[Reset, int]] = {}
        without: list[TopicPartition] = []
        for partition, state in self._subscriptions.states():
            if state.reset is Reset.POLICY and not self.has_policy:
                without.append(partition)
                state.reset = None
                state.position = None
            elif state.reset is not None:
                wanted[partition] = (state.reset, self._time_of(state.reset))
        if without:
            raise _no_offset(without)
        if not wanted:
            return False
        findings = await self._lookup.once({partition: time for partition, (_, time) in wanted.items()})
        unknown = [partition for partition, found in findings.found.items() if found.offset == UNKNOWN_OFFSET]
        if unknown:
            # No record is as young as the policy's time, so the next one will be the first.
            ends = await self._lookup.once(dict.fromkeys(unknown, LATEST))
            for partition in unknown:
                findings.found.pop(partition)
            findings.found.update(ends.found)
            findings.failures.update(ends.failures)
        for partition in self._still(findings.found):
            if self._subscriptions.state(partition).reset is wanted[partition][0]:
                self._move(partition, findings.found[partition])
        return _has_failures(findings.failures)

    async def _check_epochs(self) -> bool:
        doubtful = {
            partition: state.position
            for partition, state in self._subscriptions.states()
            if state.position is not None
            and state.reset is None
            and self._cluster.view.leader(*partition) != NO_NODE
            and not self.is_sound(partition, state)
        }
        if not doubtful:
            return False
        findings = await epoch_ends(self._cluster, doubtful)
        cut: list[LogTruncated] = []
        for partition in self._still(findings.ends):
            state = self._subscriptions.state(partition)
            if state.position is doubtful[partition] and state.reset is None:
                cut += self._judge(partition, state, doubtful[partition], findings.ends[partition])
        for truncated in cut:
            raise truncated
        return _has_failures(findings.failures)

    async def _find_leaders(self) -> bool:
        """A partition without a leader gets one some day; ask the cluster for its view until then."""
        if all(self._cluster.view.leader(*partition) != NO_NODE for partition in self._subscriptions.assigned()):
            return False
        self._cluster.refresh_soon()
        return True

    def _judge(
        self, partition: TopicPartition, state: AssignedPartition, position: Position, end: EpochEnd | None
    ) -> list[LogTruncated]:
        """A position behind the end of its epoch stands on records that the log does not have any more."""
        if end is None:
            topic = self._cluster.view.topics[partition.topic]
            state.validated_epoch = topic.partitions[partition.partition].leader_epoch
        elif end.end_offset >= 0 and end.leader_epoch >= 0 and end.end_offset >= position.offset:
            state.validated_epoch = end.checked_under
        elif not self.has_policy:
            return [_truncated(partition, position, end)]
        elif end.end_offset < 0 or end.leader_epoch < 0:
            logger.warning(
                "%s was truncated below offset %d; the position is reset",
                partition,
                position.offset,
            )
            state.reset = Reset.POLICY
        else:
            logger.warning("%s was cut at %d, below %d", partition, end.end_offset, position.offset)
            self._subscriptions.seek(partition, Position(end.end_offset, end.leader_epoch))
            state.validated_epoch = end.checked_under
        return []

    def _move(self, partition: TopicPartition, found: FoundOffset) -> None:
        # Without the epoch: the leader itself just named the offset, which needs no check.
        self._subscriptions.seek(partition, Position(found.offset))
        logger.info("position of %s set to %d", partition, found.offset)

    def _time_of(self, reset: Reset) -> int:
        if reset is Reset.POLICY and self._policy.where == "by_duration":
            # What is below zero has other meanings.
            return max(self._cluster.world.clock.now_ms() - self._policy.duration_ms, 0)
        is_earliest = reset is Reset.EARLIEST or (reset is Reset.POLICY and self._policy.where == "earliest")
        return EARLIEST if is_earliest else LATEST

    def _still(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """Those that are assigned yet: the question took time."""
        return [partition for partition in partitions if self._subscriptions.is_assigned(partition)]


def _has_failures(failures: Mapping[TopicPartition, KafkaError]) -> bool:
    """Whether some have to be tried again; one that does not pass is raised."""
    for failure in failures.values():
        if not failure.retriable:
            raise failure
    return bool(failures)


def _no_offset(partitions: Collection[TopicPartition]) -> NoOffsetForPartition:
    names = ", ".join(map(str, partitions))
    text = f"no offset is committed for {names}, and auto.offset.reset is none: seek, or set a policy"
    return NoOffsetForPartition(text, partitions=tuple(partitions))


def _truncated(partition: TopicPartition, position: Position, end: EpochEnd) -> LogTruncated:
    known = {partition: end.end_offset} if end.end_offset >= 0 else {}
    where = f"at {end.end_offset}" if known else "somewhere"
    text = f"{partition} was cut {where}, below the position {position.offset}: records that were read are gone"
    return LogTruncated(text, offsets={partition: position.offset}, divergent_offsets=known)
