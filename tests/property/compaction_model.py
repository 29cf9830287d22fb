"""What a compacted log must and may hold: batches as they were sent, and what cleaning and retention take from them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

Row = tuple[bytes, bytes | None]
"""Key and value; no value is a tombstone."""


@dataclass(eq=False)
class Transaction:
    first_offset: int
    is_committed: bool | None = None
    marker_offset: int | None = None

    @property
    def is_aborted(self) -> bool:
        return self.is_committed is False


@dataclass(eq=False)
class Batch:
    base_offset: int
    rows: tuple[Row, ...]
    timestamp_ms: int
    producer_id: int | None = None
    base_sequence: int = -1
    transaction: Transaction | None = None
    is_marker: bool = False
    present: set[int] = field(init=False)
    """The offsets whose rows have not been cleaned away."""
    horizon_ms: int | None = None
    """From when on its tombstones may go."""
    is_given_up: bool = False
    """Whether retention may have taken it: then nothing of it has to be there."""

    def __post_init__(self) -> None:
        self.present = set() if self.is_marker else set(range(self.base_offset, self.next_offset))

    @property
    def next_offset(self) -> int:
        return self.base_offset + len(self.rows)

    @property
    def is_void(self) -> bool:
        return self.transaction is not None and self.transaction.is_aborted

    @property
    def counts(self) -> bool:
        """Whether readers of committed records see it."""
        return not self.is_marker and (self.transaction is None or self.transaction.is_committed is True)

    def numbered(self) -> Iterator[tuple[int, Row]]:
        return enumerate(self.rows, self.base_offset)

    def rows_present(self) -> dict[int, Row]:
        return {offset: row for offset, row in self.numbered() if offset in self.present}


@dataclass(frozen=True)
class Left:
    """What cleaning leaves of a batch."""

    offsets: frozenset[int]
    horizon_ms: int | None


Outcome = Mapping[Batch, Left]


@dataclass
class Pass:
    """A cleaning under way: some of it may have been done, and at its end all that was asked for."""

    asked: Outcome
    """With as many keys as there was memory for."""
    most: Outcome
    """With all keys of the dirty part."""


@dataclass
class CompactedModel:
    batches: list[Batch] = field(default_factory=list)
    start: int = 0
    flushed: int = 0
    answered: int = 0
    """Where the last append ended that was not interrupted."""
    high_watermark: int = 0
    under_way: Pass | None = None

    @property
    def end(self) -> int:
        return max(self.batches[-1].next_offset, self.start) if self.batches else self.start

    # Producers

    def last_batches(self, producer_id: int, count: int = 5) -> list[Batch]:
        """The newest first."""
        mine = (one for one in reversed(self.batches) if one.producer_id == producer_id and not one.is_marker)
        return [one for one, _ in zip(mine, range(count))]

    def next_sequence(self, producer_id: int) -> int:
        last = self.last_batches(producer_id, 1)
        return last[0].base_sequence + len(last[0].rows) if last else 0

    def transactions(self) -> list[Transaction]:
        return list({one.transaction: None for one in self.batches if one.transaction is not None})

    def open_transaction(self, producer_id: int) -> Transaction | None:
        for batch in self.last_batches(producer_id, 1):
            if batch.transaction is not None and batch.transaction.is_committed is None:
                return batch.transaction
        return None

    def stable_bounds(self) -> tuple[int, int]:
        """Between what the last stable offset is; retention may take the beginning of an open transaction."""
        undecided = [
            one for one in self.transactions() if one.marker_offset is None or one.marker_offset >= self.high_watermark
        ]
        low = min([one.first_offset for one in undecided], default=self.high_watermark)
        certain = [
            batch.base_offset
            for batch in self.batches
            if batch.transaction in undecided and not batch.is_marker and batch.base_offset >= self.start
            # Of one that has ended a cleaning may have taken records, before a crash took the high watermark back.
            if batch.transaction is not None and (batch.transaction.marker_offset is None or batch.present)
        ]
        bounds = min(low, self.high_watermark), min([*certain, self.high_watermark])
        return max(bounds[0], self.start), max(bounds[1], self.start)

    # Appending and losing

    def append(self, batch: Batch) -> None:
        """A batch is on its way; `answered` says when it is there."""
        self.batches.append(batch)

    def cut(self, end_offset: int) -> None:
        """A crash has taken the end: what was decided there is open again."""
        self.batches = [one for one in self.batches if one.next_offset <= end_offset]
        for transaction in self.transactions():
            if transaction.marker_offset is not None and transaction.marker_offset >= end_offset:
                transaction.is_committed = transaction.marker_offset = None
        self.answered = self.end
        self.flushed = min(self.flushed, self.end)

    def give_up(self, before_offset: int) -> None:
        """Retention has taken what lies before, though a power cut may undo that."""
        for batch in self.batches:
            if batch.base_offset < before_offset:
                batch.is_given_up = True

    # Cleaning

    def cleaned(self, first_dirty: int, end: int, closed_until: int, now_ms: int, retention_ms: int) -> Outcome:
        """What a pass leaves that knows the keys from `first_dirty` to `end`, of the batches below `closed_until`."""
        latest: dict[bytes, int] = {}
        for batch in self.batches:
            if not batch.is_marker and not batch.is_void:
                rows = batch.rows_present().items()
                latest.update({row[0]: offset for offset, row in rows if first_dirty <= offset < end})
        outcome = {}
        for batch in self.batches:
            if batch.base_offset < closed_until and not batch.is_marker:
                outcome[batch] = _left_of(batch, latest, end, now_ms, retention_ms)
        return outcome

    def may_hold(self, batch: Batch, found: set[int], horizon_ms: int | None) -> bool:
        """Whether a batch may be found so, in the middle of a pass or outside of one."""
        if batch.is_marker:
            return not found
        seen = {offset for offset in batch.present if offset >= self.start}
        if batch.is_given_up:
            return found <= batch.present
        horizons, needed = {batch.horizon_ms}, seen
        if self.under_way is not None and batch in self.under_way.most:
            most = self.under_way.most[batch]
            # With fewer keys a tombstone may stay that would go with all of them.
            horizons |= {left.horizon_ms for left in (most, self.under_way.asked.get(batch)) if left is not None}
            needed = seen & most.offsets
        return needed <= found <= batch.present and (not found or horizon_ms in horizons)

    def ended_as_asked(self, batch: Batch, found: set[int], horizon_ms: int | None) -> bool:
        """The same at the end of a pass that was not disturbed: all that could go is gone."""
        assert self.under_way is not None
        left = self.under_way.asked.get(batch)
        if left is None:
            return self.may_hold(batch, found, horizon_ms)
        is_certain = self.under_way.most[batch].offsets <= found | set(range(self.start)) and found <= left.offsets
        horizons = {left.horizon_ms}
        rows = dict(batch.numbered())
        if not any(rows[offset][1] is None for offset in left.offsets if offset >= self.start):
            # A tombstone below the start sets a horizon, unless an earlier pass took it: the cleaner does not look.
            horizons.add(batch.horizon_ms)
        return is_certain and (not found or horizon_ms in horizons)

    # Reading

    def latest(self) -> dict[bytes, tuple[int, bytes | None]]:
        """The last that was committed of each key, whatever was cleaned."""
        found: dict[bytes, tuple[int, bytes | None]] = {}
        for batch in self.batches:
            if batch.counts:
                for offset, (key, value) in batch.numbered():
                    if offset >= self.start and (offset in batch.present or not batch.is_given_up):
                        found[key] = (offset, value)
        return found

    def check_latest(self, found: set[int]) -> None:
        """Every key has its last value; one that was deleted has none, with or without its tombstone."""
        rows = {offset: row for batch in self.batches for offset, row in batch.numbered() if offset in found}
        seen = {key: (offset, value) for offset, (key, value) in sorted(rows.items())}
        for key, last in self.latest().items():
            is_deleted = last[1] is None and key not in seen
            assert is_deleted or seen.get(key) == last, (key, last, seen.get(key))


def _left_of(batch: Batch, latest: Mapping[bytes, int], end: int, now_ms: int, retention_ms: int) -> Left:
    if batch.is_void:
        return Left(frozenset(), batch.horizon_ms)
    is_over = batch.horizon_ms is not None and now_ms >= batch.horizon_ms

    def stays(offset: int, row: Row) -> bool:
        return offset >= end or (latest.get(row[0], -1) <= offset and not (is_over and row[1] is None))

    kept = {offset: row for offset, row in batch.rows_present().items() if stays(offset, row)}
    horizon_ms = batch.horizon_ms
    if horizon_ms is None and any(value is None for _, value in kept.values()):
        horizon_ms = now_ms + retention_ms
    return Left(frozenset(kept), horizon_ms)
