"""What a coordinator decides: records for its partition, and a reply that leaves when they are committed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

Reply = TypeVar("Reply")

NO_PRODUCER = -1


@dataclass(frozen=True, slots=True)
class EndOfTransaction:
    """The key of what a marker says: the end of a producer's transaction on this journal."""

    producer_id: int
    is_commit: bool


class Record(NamedTuple):
    """A key that says what it is about, and the value that holds from now on; no value ends it.

    Which classes they have is each machine's own: it looks, and knows then what the value's is.
    """

    key: object
    value: object | None
    producer_id: int = NO_PRODUCER
    """Of a transaction: the record counts when that is committed."""
    producer_epoch: int = NO_PRODUCER
    encoded: tuple[bytes, bytes | None] | None = None
    """Key and value as the journal writes them, where they were encoded ahead: of many at once that takes a while."""


@dataclass(frozen=True, slots=True)
class Decision(Generic[Reply]):
    records: Sequence[Record]
    reply: Reply
