"""A journal in memory that keeps bytes as a log would, and can refuse or hold back."""

from collections.abc import Sequence

from penstock.coordination.decision import Record
from penstock.groups.records import decode, encode
from penstock.model.errors import KafkaError


class MemoryJournal:
    def __init__(self) -> None:
        self.entries: list[tuple[bytes, bytes | None]] = []
        self.batches: list[int] = []
        """How many records each append had."""
        self.refusal: KafkaError | None = None
        self.held_at: int | None = None
        """Where commits have stopped; None if everything is committed at once."""

    def append(self, records: Sequence[Record]) -> int:
        if self.refusal is not None:
            raise self.refusal
        self.entries += [encode(record) for record in records]
        self.batches.append(len(records))
        return len(self.entries)

    def committed_offset(self) -> int:
        return len(self.entries) if self.held_at is None else self.held_at

    def records(self) -> list[Record]:
        decoded = [decode(key, value) for key, value in self.entries]
        return [record for record in decoded if record is not None]
