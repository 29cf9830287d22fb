"""What a log remembers of idempotent and transactional producers, and the rules their batches must follow."""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from levada.model.errors import (
    DuplicateSequence,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from levada.storage.formats import AbortedTransaction, ProducerEntry
from levada.storage.marker_sets import MarkerSet, Tie

NO_PRODUCER = -1
NO_SEQUENCE = -1
NO_COORDINATOR_EPOCH = -1
REMEMBERED_BATCHES = 5
"""A producer keeps at most five requests in flight, so a repetition that matters is one of the last five."""

EPOCH_BUMPING_TRANSACTIONS = 2
"""Since this version of transactions an end marker carries a bumped epoch (KIP-890)."""

_MAX_SEQUENCE = 2**31 - 1


class Origin(Enum):
    """Where a batch comes from; what a leader has accepted, its followers do not judge again."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"


@dataclass(frozen=True, slots=True)
class AppendedBatch:
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & _MAX_SEQUENCE


@dataclass(slots=True)
class ProducerState:
    epoch: int
    batches: deque[AppendedBatch] = field(default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES))
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    last_timestamp_ms: int = -1
    transaction_start: int | None = None
    ends: int = 0
    """How many transactions of it have ended since this broker opened the log."""
    is_from_snapshot: bool = False
    """Whether batches before the ones that are remembered may matter still: a snapshot keeps the last one only."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


@dataclass(frozen=True, slots=True)
class CompletedTransaction:
    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """What a coordinator tells a partition: how a producer's transaction has ended."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int


@dataclass(frozen=True, slots=True)
class EndMarker:
    """The one record of a control batch that ends a transaction."""

    is_commit: bool
    coordinator_epoch: int
    timestamp_ms: int
    tie: Tie | None = None
    """To others of the same write."""


EndedTransaction: TypeAlias = tuple[int, int, int, EndMarker]
"""A producer and its epoch, the offset of the marker, and the marker."""


class Producers:
    """The producers of one log, by id, and its transactions that are open or not yet below the high watermark."""

    __slots__ = ("_open", "_producers", "_unreplicated", "end_offset", "markers")

    def __init__(self) -> None:
        self._producers: dict[int, ProducerState] = {}
        self._open: dict[int, int] = {}
        """First offset of each open transaction, to its producer."""
        self._unreplicated: dict[int, int] = {}
        """First offset of each transaction that has ended above the high watermark, to the offset that decides it."""
        self.end_offset = 0
        self.markers: MarkerSet[EndedTransaction] = MarkerSet()
        """Those that do not count yet, as others of their write are not there."""

    def __len__(self) -> int:
        return len(self._producers)

    @property
    def is_empty(self) -> bool:
        return not self._producers

    @property
    def snapshot_offset(self) -> int:
        """Up to where a snapshot tells everything: markers that do not count yet must be read again."""
        return self.markers.begins_before(self.end_offset)

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the oldest transaction begins whose outcome readers may not know yet."""
        if not self._open and not self._unreplicated:
            return None
        return min((*self._open, *self._unreplicated))

    def get(self, producer_id: int) -> ProducerState | None:
        return self._producers.get(producer_id)

    def ends_of(self, producer_id: int) -> int:
        """How many transactions of a producer have ended here: another number says that one has ended meanwhile."""
        producer = self._producers.get(producer_id)
        return 0 if producer is None else producer.ends

    def count_on_from(self, predecessor: "Producers") -> None:
        """Count ends where the log did whose place this one takes: records wait for their turn across a move."""
        for producer_id, producer in self._producers.items():
            producer.ends += predecessor.ends_of(producer_id)

    def duplicate_of(self, producer_id: int, epoch: int, first: int, last: int) -> AppendedBatch | None:
        """The remembered batch that this one repeats."""
        known = self._producers.get(producer_id)
        if known is None or known.epoch != epoch:
            return None
        for one in known.batches:
            if one.last_sequence == last and one.first_sequence == first:
                return one
        return None

    def may_have_forgotten(self, producer_id: int, epoch: int, last: int) -> bool:
        """Whether a batch that is out of order may be an older one than those that are remembered."""
        known = self._producers.get(producer_id)
        if known is None or known.epoch != epoch or not known.is_from_snapshot or not known.batches:
            return False
        return len(known.batches) < REMEMBERED_BATCHES and _is_older(last, known.batches[0].first_sequence)

    def check_data(self, producer_id: int, epoch: int, first: int, last: int, *, is_transactional: bool) -> None:
        """Raise unless a client's batch may follow what is known of its producer."""
        known = self._producers.get(producer_id)
        if known is None:
            # The state may have expired with the records it came from, so any beginning is accepted.
            return
        self.check_epoch(producer_id, epoch)
        self._check_sequence(producer_id, known, epoch, first, last)
        if known.transaction_start is not None and not is_transactional:
            raise InvalidTransactionState(f"Expected transactional write from producer {producer_id}")

    def check_epoch(self, producer_id: int, epoch: int) -> None:
        """Raise if a producer was replaced."""
        known = self._producers.get(producer_id)
        if known is not None and epoch < known.epoch:
            raise InvalidProducerEpoch(
                f"Epoch of producer {producer_id} is {epoch}, which is smaller than the last seen epoch {known.epoch}"
            )

    def _check_sequence(self, producer_id: int, known: ProducerState, epoch: int, first: int, last: int) -> None:
        if epoch != known.epoch:
            if first != 0:
                raise OutOfOrderSequence(
                    f"Invalid sequence number for new epoch of producer {producer_id}: {epoch} (request epoch), "
                    f"{first} (seq. number), {known.epoch} (current producer epoch)"
                )
            return
        if first == next_sequence(known.last_sequence):
            return
        # With fewer it may be one that was refused when those after it were taken, and must not pass for written.
        if len(known.batches) == REMEMBERED_BATCHES and _is_older(last, known.batches[0].first_sequence):
            raise DuplicateSequence(
                f"producer {producer_id} repeats sequence {first}, older than the last {REMEMBERED_BATCHES} batches"
            )
        raise OutOfOrderSequence(
            f"Out of order sequence number for producer {producer_id}: {first} (incoming seq. number), "
            f"{known.last_sequence} (current end sequence number)"
        )

    def check_coordinator_batch(self, producer_id: int, epoch: int, marker: EndMarker | None, version: int) -> None:
        """Raise unless a coordinator may append this for a producer: a marker, or a batch without sequences."""
        if marker is None:
            self.check_epoch(producer_id, epoch)
        else:
            self.check_marker(producer_id, epoch, marker.coordinator_epoch, version)

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, transaction_version: int) -> None:
        """Raise unless the coordinator may end this producer's transaction."""
        known = self._producers.get(producer_id)
        if known is None:
            return
        bumps_epoch = transaction_version >= EPOCH_BUMPING_TRANSACTIONS
        # With a new epoch in every marker, an equal one is a repetition, and harmless when nothing is open.
        is_repeated = bumps_epoch and epoch == known.epoch and known.transaction_start is not None
        if epoch < known.epoch or is_repeated:
            how = "<= the last seen epoch" if bumps_epoch else "smaller than the last seen epoch"
            raise InvalidProducerEpoch(f"Epoch of producer {producer_id} is {epoch}, which is {how} {known.epoch}")
        if known.coordinator_epoch > coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"Invalid coordinator epoch for producerId {producer_id}: {coordinator_epoch} (zombie), "
                f"{known.coordinator_epoch} (current)"
            )

    def note_data(self, producer_id: int, epoch: int, batch: AppendedBatch, *, is_transactional: bool) -> None:
        """A batch of records was appended."""
        producer = self._begun(producer_id, epoch)
        producer.batches.append(batch)
        producer.last_timestamp_ms = batch.timestamp_ms
        if is_transactional and producer.transaction_start is None:
            producer.transaction_start = batch.base_offset
            self._open[batch.base_offset] = producer_id

    def note_marker(self, producer_id: int, epoch: int, offset: int, marker: EndMarker) -> CompletedTransaction | None:
        """A marker was appended; the transaction it ended, unless that was empty."""
        producer = self._begun(producer_id, epoch)
        start, producer.transaction_start = producer.transaction_start, None
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp_ms = marker.timestamp_ms
        producer.ends += 1
        if start is None:
            return None
        return CompletedTransaction(producer_id, start, offset, is_aborted=not marker.is_commit)

    def _begun(self, producer_id: int, epoch: int) -> ProducerState:
        """The producer, in this epoch from now on."""
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = ProducerState(epoch)
        elif producer.epoch != epoch:
            producer.epoch = epoch
            producer.batches.clear()
        return producer

    def complete(self, transaction: CompletedTransaction, decided_at: int) -> AbortedTransaction | None:
        """Close a transaction that is stable when all replicas have `decided_at`, its marker or the last of the write.

        If it was aborted, an index must learn of it.
        """
        self._open.pop(transaction.first_offset, None)
        self._unreplicated[transaction.first_offset] = decided_at
        if not transaction.is_aborted:
            return None
        others = [start for start, producer_id in self._open.items() if producer_id != transaction.producer_id]
        stable = min(others, default=transaction.last_offset + 1)
        return AbortedTransaction(transaction.producer_id, transaction.first_offset, transaction.last_offset, stable)

    def set_high_watermark(self, high_watermark: int) -> None:
        """Ended transactions whose marker every replica has are stable."""
        if self._unreplicated:
            self._unreplicated = {
                start: marker for start, marker in self._unreplicated.items() if marker >= high_watermark
            }

    def hold_unreplicated(self, earlier: "Producers") -> None:
        """Know what others do that were restored from an earlier snapshot: it is not kept in any."""
        self._unreplicated |= earlier._unreplicated

    def raise_start(self, start_offset: int) -> None:
        self._unreplicated = {first: last for first, last in self._unreplicated.items() if last >= start_offset}
        self.end_offset = max(self.end_offset, start_offset)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers that have been silent for long, unless they have a transaction open."""
        self._producers = {
            producer_id: producer
            for producer_id, producer in self._producers.items()
            if producer.transaction_start is not None or now_ms - producer.last_timestamp_ms < expiration_ms
        }

    def last_records(self) -> dict[int, tuple[int | None, int]]:
        """By producer: the offset of its last record, None where there is only a marker, and its epoch."""
        return {
            producer_id: (producer.batches[-1].last_offset if producer.batches else None, producer.epoch)
            for producer_id, producer in self._producers.items()
        }

    def entries(self) -> list[ProducerEntry]:
        """What a snapshot keeps, in the order in which Apache writes it."""
        return [_as_entry(producer_id, self._producers[producer_id]) for producer_id in java_order(self._producers)]

    def restore(self, entries: list[ProducerEntry], end_offset: int, now_ms: int, expiration_ms: int) -> None:
        """Become what a snapshot says, without the producers that have expired since."""
        self._producers, self._open, self._unreplicated = {}, {}, {}
        self.markers = MarkerSet()
        for entry in entries:
            is_open = entry.current_transaction_first_offset >= 0
            if is_open or now_ms - entry.timestamp_ms < expiration_ms:
                self._producers[entry.producer_id] = _as_producer(entry)
                if is_open:
                    self._open[entry.current_transaction_first_offset] = entry.producer_id
        self.end_offset = end_offset


def next_sequence(sequence: int) -> int:
    return 0 if sequence == _MAX_SEQUENCE else sequence + 1


def java_order(producer_ids: dict[int, ProducerState]) -> list[int]:
    """The order of a java.util.HashMap with these Long keys: by bucket, then by insertion."""
    capacity = 16
    while len(producer_ids) > capacity * 3 // 4:
        capacity *= 2

    def bucket(producer_id: int) -> int:
        folded = (producer_id ^ (producer_id >> 32)) & 0xFFFFFFFF
        return (folded ^ (folded >> 16)) & (capacity - 1)

    return sorted(producer_ids, key=bucket)


def _is_older(sequence: int, other: int) -> bool:
    """Whether a sequence lies before another, in numbers that wrap."""
    return 0 < (other - sequence) & _MAX_SEQUENCE < 1 << 30


def _as_entry(producer_id: int, producer: ProducerState) -> ProducerEntry:
    last = producer.batches[-1] if producer.batches else AppendedBatch(NO_SEQUENCE, -1, 0, -1)
    return ProducerEntry(
        producer_id=producer_id,
        epoch=producer.epoch,
        last_sequence=last.last_sequence,
        last_offset=last.last_offset,
        offset_delta=last.offset_delta,
        timestamp_ms=producer.last_timestamp_ms,
        coordinator_epoch=producer.coordinator_epoch,
        current_transaction_first_offset=-1 if producer.transaction_start is None else producer.transaction_start,
    )


def _as_producer(entry: ProducerEntry) -> ProducerState:
    producer = ProducerState(
        entry.epoch, coordinator_epoch=entry.coordinator_epoch, last_timestamp_ms=entry.timestamp_ms
    )
    producer.is_from_snapshot = True
    if entry.last_offset >= 0:
        batch = AppendedBatch(entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp_ms)
        producer.batches.append(batch)
    if entry.current_transaction_first_offset >= 0:
        producer.transaction_start = entry.current_transaction_first_offset
    return producer
