"""A partition of an internal topic as the journal of a coordinator."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeAlias

from levada.broker.partition import Partition
from levada.coordination.decision import NO_PRODUCER, EndOfTransaction, Record
from levada.model.buffers import Buffer
from levada.model.errors import CoordinatorNotAvailable, ErrorCode, KafkaError, NotCoordinator, UnknownServerError
from levada.records import BatchView, Codec, build_batch, iter_batches
from levada.storage.replay import end_marker
from levada.world.clock import Clock
from levada.world.disk import AsyncDisk

Encode: TypeAlias = Callable[[Record], tuple[bytes, bytes | None]]
Decode: TypeAlias = Callable[[Buffer, Buffer | None], Record | None]
"""None for records that nobody here knows."""

MIN_READ_SIZE = 64 * 1024

_REFUSALS: dict[ErrorCode, type[KafkaError]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: CoordinatorNotAvailable,
    ErrorCode.NOT_ENOUGH_REPLICAS: CoordinatorNotAvailable,
    ErrorCode.REQUEST_TIMED_OUT: CoordinatorNotAvailable,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: NotCoordinator,
    ErrorCode.KAFKA_STORAGE_ERROR: NotCoordinator,
}
"""What a client can do about a write that failed is to look for the coordinator again, or to give up."""


class PartitionJournal:
    def __init__(self, partition: Partition, clock: Clock, encode: Encode, codec: Codec) -> None:
        self._partition = partition
        self._clock = clock
        self._encode = encode
        self._codec = codec
        log = partition.log
        # What a dead broker wrote may not be on the device, and the first replies speak of it.
        self._flush_to = log.end_offset if log.flush_due(clock.now_ms()) else 0
        """Where the log ended when its configuration last asked for a flush."""

    @property
    def is_flush_due(self) -> bool:
        """Whether something may not be called committed before it is on the device."""
        return self._flush_to > self._partition.log.recovery_point

    def append(self, records: Sequence[Record]) -> int:
        now_ms = self._clock.now_ms()
        producer = records[0].producer_id
        batch = build_batch(
            [(now_ms, *self._encode(record), ()) for record in records],
            codec=self._codec,
            producer_id=producer,
            producer_epoch=records[0].producer_epoch,
            is_transactional=producer != NO_PRODUCER,
        )
        partition = self._partition
        try:
            partition.refuse_if_too_few_in_sync()
            appended = partition.append_own(batch, now_ms)
        except KafkaError as error:
            refusal = _REFUSALS.get(error.code, UnknownServerError)
            raise refusal(f"{partition.name} cannot keep it: {error}") from error
        if appended.is_flush_due:
            self._flush_to = partition.log.end_offset
        return partition.log.end_offset

    def committed_offset(self) -> int:
        high_watermark = self._partition.high_watermark
        return min(high_watermark, self._partition.log.recovery_point) if self.is_flush_due else high_watermark


async def read_journal(
    partition: Partition, disk: AsyncDisk, decode: Decode, buffer_size: int
) -> AsyncIterator[list[Record]]:
    """The records of a journal from its beginning, one batch after the other; without those nobody here knows."""
    log = partition.log
    offset = log.start_offset
    while offset < log.end_offset:
        found = log.read(offset, max(buffer_size, MIN_READ_SIZE), at_least_one_batch=True, upper_offset=log.end_offset)
        if found is None or not found.size:
            return
        for batch in iter_batches(await disk.read(found.file, found.position, found.size)):
            yield _end(batch) if batch.is_control else _records(batch, decode)
            offset = batch.next_offset


def _records(batch: BatchView, decode: Decode) -> list[Record]:
    producer = (batch.producer_id, batch.producer_epoch) if batch.is_transactional else (NO_PRODUCER, NO_PRODUCER)
    decoded = (decode(one.key, one.value) for one in batch.records() if one.key is not None)
    known = [one for one in decoded if one is not None]
    return known if producer[0] == NO_PRODUCER else [Record(one.key, one.value, *producer) for one in known]


def _end(batch: BatchView) -> list[Record]:
    marker = end_marker(batch)
    return [] if marker is None else [Record(EndOfTransaction(batch.producer_id, marker.is_commit), None)]
