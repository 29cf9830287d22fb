"""What came of an operation on a log, or is still to be done for it."""

from dataclasses import dataclass
from typing import TypeAlias

from levada.model.errors import ApiError
from levada.world.disk import Disk, File

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
class MarkersAppended:
    """What came of the ends of some transactions."""

    refused: tuple[ApiError | None, ...]
    """For each end, in their order, why it was not written."""
    size: int
    is_flush_due: bool


@dataclass(frozen=True, slots=True)
class FlushDue:
    """System calls that bring a log up to an offset to the device, to be made off the event loop."""

    directories: tuple[str, ...]
    files: list[File]
    first_offset: int
    end_offset: int
    since_ms: int | None
    """When the first record was appended that it covers."""

    def sync(self, disk: Disk) -> None:
        """Make them here and now."""
        for file in self.files:
            file.sync()
        for directory in self.directories:
            disk.sync_directory(directory)


@dataclass(frozen=True, slots=True)
class FoundRecord:
    """The answer to a question about time."""

    offset: int
    timestamp_ms: int
    leader_epoch: int
