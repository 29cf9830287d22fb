"""What a coordinator decides: records for its partition, and a reply that leaves when they are committed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Reply = TypeVar("Reply")


@dataclass(frozen=True, slots=True)
class Record:
    """A key that says what it is about, and the value that holds from now on; no value ends it."""

    key: Any
    value: Any | None


@dataclass(frozen=True, slots=True)
class Decision(Generic[Reply]):
    records: Sequence[Record]
    reply: Reply
