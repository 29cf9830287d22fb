"""What is left of a batch when a log is cleaned."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import compress
from typing import NamedTuple

from levada.records import BatchView, Codec, build_batch
from levada.records.offset_map import OffsetMap
from levada.records.record import Record
from levada.storage.cleaning.transactions import PassedTransactions
from levada.storage.marker_sets import tie_of


class LastRecord(NamedTuple):
    """The last that a log knows of a producer that may come back."""

    data_offset: int | None
    """Of its last batch of records; None where only a marker is left."""
    epoch: int


class Kept(NamedTuple):
    """A batch of the cleaned log."""

    data: "bytes | memoryview"
    record_count: int
    max_timestamp: int


@dataclass(slots=True)
class Counts:
    """What a pass has read and kept."""

    records_read: int = 0
    records_kept: int = 0
    bytes_read: int = 0
    bytes_kept: int = 0
    mapped_records: int = 0
    mapped_bytes: int = 0
    without_key: int = 0


@dataclass(slots=True)
class Filter:
    """The rules of one pass."""

    offsets: OffsetMap
    transactions: PassedTransactions
    last_records: Mapping[int, LastRecord]
    upper_offset: int
    """Where the part of the log ends that may be cleaned."""
    now_ms: int
    delete_retention_ms: int
    counts: Counts = field(default_factory=Counts)

    def apply(self, batch: BatchView, *, is_torn: bool = False) -> Kept | None:
        """What takes the batch's place; None where nothing does, as for a marker of a write that was torn."""
        self.counts.bytes_read += batch.size
        is_void = is_torn or self._is_void(batch)
        is_marker_of_nothing = is_void and batch.is_control and not is_torn
        if is_marker_of_nothing:
            # Readers that have not come to the marker yet get some time for it, as they do for a tombstone.
            is_void = batch.delete_horizon_ms is not None and batch.delete_horizon_ms <= self.now_ms
        must_stay = self._is_last_of_producer(batch) or batch.next_offset == self.upper_offset
        if is_void and not must_stay:
            return None
        self.counts.records_read += batch.record_count
        if is_void or not batch.record_count:
            return self._empty(batch) if must_stay else None
        if batch.is_control:
            return self._marker(batch, needs_horizon=is_marker_of_nothing)
        return self._sifted(batch, must_stay=must_stay)

    def _sifted(self, batch: BatchView, *, must_stay: bool) -> Kept | None:
        horizon_ms = batch.delete_horizon_ms
        drops_tombstones = horizon_ms is not None and self.now_ms >= horizon_ms
        body = batch.uncompressed_body()
        sifted = self.offsets.sift(body, batch.record_count, batch.base_offset, drops_tombstones)
        self.counts.without_key += sifted.keyless
        if not sifted.kept:
            return self._empty(batch) if must_stay else None
        if sifted.kept == batch.record_count and not (sifted.has_tombstone and horizon_ms is None):
            self.counts.records_kept += sifted.kept
            return self._note(Kept(_bytes_of(batch), sifted.kept, batch.max_timestamp))
        kept = list(compress(batch.records(), sifted.flags))
        return self._with_records(batch, kept, needs_horizon=sifted.has_tombstone)

    def _marker(self, batch: BatchView, *, needs_horizon: bool) -> Kept:
        """Without what ties it to others: all of them count, and some may be cleaned away before it is."""
        kept = batch.records()
        if tie_of(kept[0]) is None:
            return self._with_records(batch, kept, needs_horizon=needs_horizon)
        alone = kept[0]._replace(headers=())
        self.counts.records_kept += 1
        return self._note(_rebuilt(batch, [alone], self._horizon_ms(batch, needs_horizon=needs_horizon)))

    def _with_records(self, batch: BatchView, kept: list[Record], *, needs_horizon: bool) -> Kept:
        self.counts.records_kept += len(kept)
        if len(kept) == batch.record_count and not (needs_horizon and batch.delete_horizon_ms is None):
            return self._note(Kept(_bytes_of(batch), len(kept), batch.max_timestamp))
        return self._note(_rebuilt(batch, kept, self._horizon_ms(batch, needs_horizon=needs_horizon)))

    def _horizon_ms(self, batch: BatchView, *, needs_horizon: bool) -> int | None:
        horizon_ms = batch.delete_horizon_ms
        return self.now_ms + self.delete_retention_ms if needs_horizon and horizon_ms is None else horizon_ms

    def _is_void(self, batch: BatchView) -> bool:
        if batch.is_control:
            return self.transactions.is_marker_of_nothing(batch)
        return self.transactions.is_void(batch)

    def _is_last_of_producer(self, batch: BatchView) -> bool:
        """Whether the log would forget the last sequence, or the epoch, of a producer without this batch."""
        last = self.last_records.get(batch.producer_id) if batch.producer_id >= 0 else None
        if last is None:
            return False
        if last.data_offset is not None:
            return batch.last_offset == last.data_offset
        return batch.is_control and batch.producer_epoch == last.epoch

    def _empty(self, batch: BatchView) -> Kept:
        """A header alone: it keeps a sequence, or the end of what was cleaned."""
        data = build_batch(
            [],
            base_offset=batch.base_offset,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            partition_leader_epoch=batch.partition_leader_epoch,
            is_transactional=batch.is_transactional,
            is_control=batch.is_control,
            max_timestamp=batch.max_timestamp,
            log_append_time_ms=batch.log_append_timestamp,
            last_offset_delta=batch.last_offset_delta,
        )
        return self._note(Kept(data, 0, batch.max_timestamp))

    def _note(self, kept: Kept) -> Kept:
        self.counts.bytes_kept += len(kept.data)
        return kept


def _bytes_of(batch: BatchView) -> memoryview:
    return memoryview(batch.buffer)[batch.start : batch.start + batch.size]


def _rebuilt(batch: BatchView, kept: list[Record], horizon_ms: int | None) -> Kept:
    """The batch with some of its records, at their offsets, and the end that it had."""
    # The maximum is that of the records which stay, unless the broker gave them all one time.
    max_timestamp = batch.log_append_timestamp
    if max_timestamp is None:
        max_timestamp = max(record.timestamp_ms for record in kept)
    data = build_batch(
        [(record.timestamp_ms, record.key, record.value, record.headers) for record in kept],
        base_offset=batch.base_offset,
        codec=Codec(batch.codec),
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        partition_leader_epoch=batch.partition_leader_epoch,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
        max_timestamp=max_timestamp,
        log_append_time_ms=batch.log_append_timestamp,
        delete_horizon_ms=horizon_ms,
        offset_deltas=[record.offset - batch.base_offset for record in kept],
        last_offset_delta=batch.last_offset_delta,
    )
    return Kept(data, len(kept), max_timestamp)
