"""A journal in memory that keeps bytes as a log would, and can refuse or hold back."""

from collections.abc import Sequence

from levada.coordination.decision import EndOfTransaction, Record
from levada.groups.records import decode, encode
from levada.model.errors import ApiError


class MemoryJournal:
    def __init__(self) -> None:
        self.entries: list[tuple[bytes, bytes | None, int] | EndOfTransaction] = []
        self.batches: list[int] = []
        """How many records each append had."""
        self.refusal: ApiError | None = None
        self.held_at: int | None = None
        """Where commits have stopped; None if everything is committed at once."""

    def append(self, records: Sequence[Record]) -> int:
        if self.refusal is not None:
            raise self.refusal
        self.entries += [(*encode(record), record.producer_id) for record in records]
        self.batches.append(len(records))
        return len(self.entries)

    def committed_offset(self) -> int:
        return len(self.entries) if self.held_at is None else self.held_at

    def records(self) -> list[Record]:
        return [_read(entry) for entry in self.entries]

    def mark(self, end: EndOfTransaction) -> int:
        """What the coordinator of a transaction writes at its end."""
        self.entries.append(end)
        return len(self.entries)


def _read(entry: tuple[bytes, bytes | None, int] | EndOfTransaction) -> Record:
    if isinstance(entry, EndOfTransaction):
        return Record(entry, None)
    key, value, producer_id = entry
    record = decode(key, value)
    assert record is not None
    return record._replace(producer_id=producer_id)
