"""A partition of an internal topic as the journal of a coordinator."""

import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import TypeAlias

from levada.broker.partition import Partition
from levada.coordination.decision import NO_PRODUCER, EndOfTransaction, Record
from levada.model.buffers import Buffer
from levada.model.error_codes import ErrorCode
from levada.model.errors import (
    ApiError,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    NotCoordinator,
    UnknownServerError,
)
from levada.protocol.errors import CodecError
from levada.records import BatchView, Codec, CorruptBatch, build_batch, iter_batches
from levada.storage.marker_sets import MarkerSet
from levada.storage.replay import end_marker
from levada.world.clock import Clock
from levada.world.disk import AsyncDisk

logger = logging.getLogger(__name__)

Encode: TypeAlias = Callable[[Record], tuple[bytes, bytes | None]]
Decode: TypeAlias = Callable[[Buffer, Buffer | None], Record | None]
"""None for records of kinds that this version does not know."""

MIN_READ_SIZE = 64 * 1024

_REFUSALS: dict[ErrorCode, type[ApiError]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: CoordinatorNotAvailable,
    ErrorCode.NOT_ENOUGH_REPLICAS: CoordinatorNotAvailable,
    ErrorCode.REQUEST_TIMED_OUT: CoordinatorNotAvailable,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: NotCoordinator,
    ErrorCode.KAFKA_STORAGE_ERROR: NotCoordinator,
    ErrorCode.INVALID_PRODUCER_EPOCH: InvalidProducerEpoch,
}
"""What a client can do about a write that failed is to look for the coordinator again, or to give up.

A producer that was replaced learns it by the code of its epoch.
"""


class PartitionJournal:
    def __init__(self, partition: Partition, clock: Clock, encode: Encode, codec: Codec) -> None:
        self._partition = partition
        self._clock = clock
        self._encode = encode
        self._codec = codec

    def append(self, records: Sequence[Record]) -> int:
        now_ms = self._clock.now_ms()
        producer = records[0].producer_id
        try:
            encoded = [record.encoded or self._encode(record) for record in records]
        except CodecError as error:
            logger.exception("cannot write records of partition=%s", self._partition.name)
            raise UnknownServerError(f"{self._partition.name} cannot keep it: {error}") from error
        partition = self._partition
        try:
            if self._codec is Codec.NONE:
                # Before a batch is made that the partition refuses.
                partition.refuse_if_too_large(sum([len(key) + len(value or b"") for key, value in encoded]))
            partition.refuse_if_too_few_in_sync()
            batch = build_batch(
                [(now_ms, key, value, ()) for key, value in encoded],
                codec=self._codec,
                producer_id=producer,
                producer_epoch=records[0].producer_epoch,
                is_transactional=producer != NO_PRODUCER,
            )
            partition.append_own(batch, now_ms)
        except ApiError as error:
            refusal = _REFUSALS.get(error.code, UnknownServerError)
            raise refusal(f"{partition.name} cannot keep it: {error}") from error
        return partition.log.end_offset

    def committed_offset(self) -> int:
        return self._partition.high_watermark


async def read_journal(
    partition: Partition, disk: AsyncDisk, decode: Decode, buffer_size: int, records_at_once: int
) -> AsyncIterator[list[Record]]:
    """The records of a journal from its beginning, some at a time; without kinds that are not known.

    RecordsError for damaged bytes: a coordinator must not answer from what it has misread.
    """
    log = partition.log
    offset = log.start_offset
    markers: MarkerSet[Record] = MarkerSet()
    while offset < log.end_offset:
        found = log.read(offset, max(buffer_size, MIN_READ_SIZE), at_least_one_batch=True, upper_offset=log.end_offset)
        if found is None or not found.size:
            return
        read_from = offset
        for batch in iter_batches(await disk.read(found.file, found.position, found.size)):
            batch.validate()
            # The checksum does not cover a batch's own offset.
            if not offset <= batch.last_offset < log.end_offset:
                raise CorruptBatch(f"offset {batch.base_offset} where {offset} was expected")
            for records in [_ends(batch, markers)] if batch.is_control else _records(batch, decode, records_at_once):
                yield records
            offset = batch.next_offset
        if offset == read_from:
            raise CorruptBatch(f"no whole batch at offset {offset}")


def _records(batch: BatchView, decode: Decode, at_once: int) -> Iterator[list[Record]]:
    producer = (batch.producer_id, batch.producer_epoch) if batch.is_transactional else (NO_PRODUCER, NO_PRODUCER)
    stored = batch.records()
    for start in range(0, len(stored), at_once):
        decoded = [decode(one.key, one.value) for one in stored[start : start + at_once] if one.key is not None]
        known = [one for one in decoded if one is not None]
        yield known if producer[0] == NO_PRODUCER else [Record(one.key, one.value, *producer) for one in known]


def _ends(batch: BatchView, markers: MarkerSet[Record]) -> list[Record]:
    """The transactions that a control batch ends: one, or with the last marker of a write all of that."""
    marker = end_marker(batch)
    if marker is None:
        return []
    end = Record(EndOfTransaction(batch.producer_id, marker.is_commit), None)
    return markers.take(marker.tie, batch.base_offset, end)
