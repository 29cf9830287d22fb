"""What came of an operation on a log, or is still to be done for it."""

from dataclasses import dataclass
from typing import TypeAlias

from levada.world.disk import File

PlainBatch: TypeAlias = tuple[int, int]
"""What a log must know of a batch that is stored as it came: its last offset delta and its maximum timestamp."""


@dataclass(slots=True)
class Appended:
    """Where a batch came to lie; a duplicate lies where it was appended first."""

    # Not frozen: one is made for every batch, and that would take three times as long.

    base_offset: int
    last_offset: int
    is_duplicate: bool = False
    is_flush_due: bool = False
    """Whether the configuration wants this on the device before it is acknowledged."""


@dataclass(frozen=True, slots=True)
class FlushDue:
    """System calls that bring a log up to an offset to the device, to be made off the event loop."""

    directories: tuple[str, ...]
    files: list[File]
    first_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """The answer to a question about time."""

    offset: int
    timestamp_ms: int
    leader_epoch: int
