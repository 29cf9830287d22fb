"""A journal in memory that keeps batches of bytes as a log would, and can refuse or hold back."""

from collections.abc import Sequence

from levada.coordination.decision import Record
from levada.model.errors import ApiError
from levada.transactions.records import TransactionLogValue, decode, encode


def value_of(record: Record | None) -> TransactionLogValue:
    assert record is not None
    assert isinstance(record.value, TransactionLogValue)
    return record.value


class MemoryJournal:
    def __init__(self, transaction_version: int = 2) -> None:
        self._transaction_version = transaction_version
        self.batches: list[list[tuple[bytes, bytes | None]]] = []
        self.refusal: ApiError | None = None
        self.held_at: int | None = None
        """Where commits have stopped; None if everything is committed at once."""

    @property
    def end_offset(self) -> int:
        return sum(map(len, self.batches))

    def append(self, records: Sequence[Record]) -> int:
        if self.refusal is not None:
            raise self.refusal
        self.batches.append([encode(record, self._transaction_version) for record in records])
        return self.end_offset

    def committed_offset(self) -> int:
        return self.end_offset if self.held_at is None else self.held_at

    def records(self) -> list[Record]:
        decoded = [decode(key, value) for batch in self.batches for key, value in batch]
        return [record for record in decoded if record is not None]

    def first(self, count: int) -> "MemoryJournal":
        """What is left of it after a crash that only these batches outlive."""
        left = MemoryJournal(self._transaction_version)
        left.batches = [list(batch) for batch in self.batches[:count]]
        return left
