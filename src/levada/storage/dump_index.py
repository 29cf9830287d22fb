"""The lines of dumped index files and producer snapshots, worded as Apache Kafka words them."""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from struct import Struct

from levada.storage.dump_batches import StoredBatch, Window, stored_batches
from levada.storage.dump_log import java_optional
from levada.storage.formats import (
    ABORTED_TRANSACTION,
    OFFSET_ENTRY,
    TIME_ENTRY,
    CorruptFile,
    ProducerEntry,
    decode_aborted_transactions,
    decode_snapshot,
)

_NO_TIMESTAMP = -1
_MAX_SEQUENCE = (1 << 31) - 1


class DumpedOffsetIndex:
    """An .index as read, zero-filled tail included."""

    def __init__(self, data: bytes, base_offset: int) -> None:
        self.entry_count = len(data) // OFFSET_ENTRY.size
        self._data = data
        self._base_offset = base_offset
        # The zeros of a preallocated file are no entries, and would spoil the order that a search relies on.
        self._used_count = min(-(-len(data.rstrip(b"\0")) // OFFSET_ENTRY.size), self.entry_count)

    @property
    def is_blank(self) -> bool:
        """Whether it is the index of a live segment that has no entry yet: no index has one for the first batch."""
        return not self._used_count

    def entries(self) -> Iterator[tuple[int, int]]:
        """(offset, position) of each entry, up to the first that says 0 again."""
        for relative, position in _entries(OFFSET_ENTRY, self._data):
            yield self._base_offset + relative, position

    def position_before(self, offset: int) -> int:
        """Where a search for an offset begins."""
        slot = bisect_right(range(self._used_count), offset, key=self._offset_at)
        position: int = OFFSET_ENTRY.unpack_from(self._data, (slot - 1) * OFFSET_ENTRY.size)[1] if slot else 0
        return position

    def check(self, path: str) -> None:
        """What Apache checks at start to decide whether the index must be rebuilt."""
        last_offset = self._offset_at(self.entry_count - 1) if self.entry_count else self._base_offset
        if last_offset < self._base_offset:
            raise CorruptFile(
                f"Corrupt index found, index file {path} has non-zero size but the last offset is {last_offset}"
                f" which is less than the base offset {self._base_offset}"
            )
        _check_size(f"Index file {path}", self._data, OFFSET_ENTRY)

    def _offset_at(self, slot: int) -> int:
        relative: int = OFFSET_ENTRY.unpack_from(self._data, slot * OFFSET_ENTRY.size)[0]
        return self._base_offset + relative


def offset_index_lines(
    index: DumpedOffsetIndex, log: Window, max_message_size: int, mismatch: Callable[[int, int], None]
) -> Iterator[str]:
    """The entries; `mismatch` is told of those whose offset is not the last one of the batch they point at."""
    for offset, position in index.entries():
        batch = next(_batches_at(log, position, max_message_size), None)
        if batch is None and not index.is_blank:
            raise CorruptFile(f"the entry of offset {offset} points at {position}, where the log has no whole batch")
        if batch is not None and batch.header.last_offset != offset and not index.is_blank:
            mismatch(offset, batch.header.last_offset)
        yield f"offset: {offset} position: {position}"


class TimeIndexFaults:
    """What a time index says that its log does not, as pairs of what was indexed and what was found."""

    def __init__(self) -> None:
        self.mismatches: list[tuple[int, int]] = []
        self.out_of_order: list[tuple[int, int]] = []
        self.not_found: list[tuple[int, int]] = []


def time_index_lines(
    data: bytes, base_offset: int, index: DumpedOffsetIndex, log: Window, faults: TimeIndexFaults
) -> Iterator[str]:
    """The entries of a .timeindex, each compared with the batch that its offset names."""
    previous = _NO_TIMESTAMP
    for timestamp_ms, relative in _entries(TIME_ENTRY, data):
        offset = base_offset + relative
        if not timestamp_ms and not relative:
            # The zeros of a live segment's file that has no entry yet.
            yield f"timestamp: {timestamp_ms} offset: {offset}"
            continue
        batches = _batches_at(log, index.position_before(offset), log.file.size())
        batch = next((batch for batch in batches if batch.header.last_offset >= offset), None)
        if batch is None:
            faults.not_found.append((offset, -1))
        elif batch.header.last_offset != offset:
            faults.not_found.append((offset, batch.header.last_offset))
        else:
            newest = max((record.timestamp_ms for record in batch.records()), default=_NO_TIMESTAMP)
            if newest != timestamp_ms:
                faults.mismatches.append((timestamp_ms, newest))
            if previous >= timestamp_ms:
                faults.out_of_order.append((timestamp_ms, previous))
        previous = timestamp_ms
        yield f"timestamp: {timestamp_ms} offset: {offset}"


def check_time_index(data: bytes, base_offset: int, path: str) -> None:
    """What Apache checks at start to decide whether the index must be rebuilt."""
    count = len(data) // TIME_ENTRY.size
    if count:
        first, _ = TIME_ENTRY.unpack_from(data)
        last, relative = TIME_ENTRY.unpack_from(data, (count - 1) * TIME_ENTRY.size)
        found = f"Corrupt time index found, time index file ({path}) has non-zero size but the last"
        if last < first:
            raise CorruptFile(f"{found} timestamp is {last} which is less than the first timestamp {first}")
        if relative < 0:
            offset = base_offset + relative
            raise CorruptFile(f"{found} offset is {offset} which is less than the first offset {base_offset}")
    _check_size(f"Time index file {path}", data, TIME_ENTRY)


def transaction_index_lines(data: bytes) -> Iterator[str]:
    """The aborted transactions of a .txnindex; of a torn one those that are whole, and then CorruptFile."""
    whole = len(data) - len(data) % ABORTED_TRANSACTION.size
    for transaction in decode_aborted_transactions(data[:whole]):
        yield (
            f"version: 0 producerId: {transaction.producer_id} firstOffset: {transaction.first_offset}"
            f" lastOffset: {transaction.last_offset} lastStableOffset: {transaction.last_stable_offset}"
        )
    if whole < len(data):
        raise CorruptFile(f"{len(data) - whole} bytes after the last whole entry")


def snapshot_lines(data: bytes) -> Iterator[str]:
    """The producers of a .snapshot."""
    return map(_producer_line, decode_snapshot(data))


def _producer_line(producer: ProducerEntry) -> str:
    transaction = producer.current_transaction_first_offset
    line = (
        f"producerId: {producer.producer_id} producerEpoch: {producer.epoch}"
        f" coordinatorEpoch: {producer.coordinator_epoch}"
        f" currentTxnFirstOffset: {java_optional(transaction if transaction >= 0 else None)}"
        f" lastTimestamp: {producer.timestamp_ms}"
    )
    if producer.last_offset < 0:
        return line
    first_sequence = (producer.last_sequence - producer.offset_delta) & _MAX_SEQUENCE
    return (
        f"{line} firstSequence: {first_sequence} lastSequence: {producer.last_sequence}"
        f" lastOffset: {producer.last_offset} offsetDelta: {producer.offset_delta} timestamp: {producer.timestamp_ms}"
    )


def _entries(layout: Struct, data: bytes) -> Iterator[tuple[int, int]]:
    """Every whole entry up to the first whose offset is the base again: the rest of a preallocated file is zeros."""
    relative_at = 0 if layout is OFFSET_ENTRY else 1
    for slot in range(len(data) // layout.size):
        entry: tuple[int, int] = layout.unpack_from(data, slot * layout.size)
        if slot and not entry[relative_at]:
            return
        yield entry


def _batches_at(log: Window, position: int, size: int) -> Iterator[StoredBatch]:
    end = log.file.size()
    if not 0 <= position <= end:
        raise CorruptFile(f"an entry points at position {position} of a log of {end} bytes")
    return stored_batches(log, position, min(end, position + size))


def _check_size(what: str, data: bytes, entry: Struct) -> None:
    if len(data) % entry.size:
        raise CorruptFile(
            f"{what} is corrupt, found {len(data)} bytes which is neither positive nor a multiple of {entry.size}"
        )
