"""Which leader epoch each stretch of a log was written in, kept in leader-epoch-checkpoint."""

from bisect import bisect_left, bisect_right
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

from levada.storage.checkpoint import read_text, write_atomically
from levada.storage.formats import CorruptFile
from levada.world.disk import Disk

FILE_NAME = "leader-epoch-checkpoint"
UNDEFINED = -1


@dataclass(frozen=True, slots=True)
class EpochStart:
    epoch: int
    start_offset: int


class LeaderEpochs:
    """Epochs and their first offsets, both ascending.

    A new epoch is written down with the next flush: until then the batches that begin it are not flushed either, and
    recovery finds it in them. What is cut off is written down at once.
    """

    __slots__ = ("_directory", "_disk", "_entries", "_is_written", "latest")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._entries: list[EpochStart] = []
        self._is_written = True
        self.latest = UNDEFINED
        """Looked at by every append."""

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        return tuple(self._entries)

    def _replace(self, entries: list[EpochStart]) -> None:
        self._entries = entries
        self.latest = entries[-1].epoch if entries else UNDEFINED

    def load(self) -> None:
        """Read the file; CorruptFile when it says nothing sensible."""
        text = read_text(self._disk, self._directory, FILE_NAME)
        self._replace([] if not text else _parse(text))

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that an epoch begins at an offset; what contradicts it gives way."""
        if self._entries and self._entries[-1].epoch == epoch and start_offset >= self._entries[-1].start_offset:
            return
        kept = [entry for entry in self._entries if entry.epoch < epoch and entry.start_offset < start_offset]
        self._replace([*kept, EpochStart(epoch, start_offset)])
        self._is_written = False

    def epoch_at(self, offset: int) -> int:
        """The epoch an offset was written in."""
        slot = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset) - 1
        return self._entries[slot].epoch if slot >= 0 else UNDEFINED

    def end_offset_of(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch not above the one asked for, and the offset at which the next one begins."""
        if epoch == UNDEFINED or not self._entries:
            return UNDEFINED, UNDEFINED
        if epoch == self.latest:
            return epoch, log_end_offset
        following = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        if following == len(self._entries):
            return UNDEFINED, UNDEFINED
        known = self._entries[following - 1].epoch if following else epoch
        return known, self._entries[following].start_offset

    def truncate_end(self, end_offset: int) -> None:
        """Forget epochs that begin at or behind the new end."""
        keep = bisect_left(self._entries, end_offset, key=lambda entry: entry.start_offset)
        if keep < len(self._entries):
            self._replace(self._entries[:keep])
            self.write()

    def truncate_start(self, start_offset: int) -> None:
        """Forget epochs that end before the new start; the one in force there begins there now."""
        in_force = bisect_right(self._entries, start_offset, key=lambda entry: entry.start_offset) - 1
        if in_force < 0 or (in_force == 0 and self._entries[0].start_offset == start_offset):
            return
        in_force_now = EpochStart(self._entries[in_force].epoch, start_offset)
        self._replace([in_force_now, *self._entries[in_force + 1 :]])
        # What cannot be written now is written with the next flush, and a start would find the same.
        self._is_written = False
        with suppress(OSError):
            self.write()

    def clear(self) -> None:
        if self._entries:
            self._replace([])
            self.write()

    def write_if_changed(self) -> None:
        if not self._is_written:
            self.write()

    def write(self) -> None:
        lines = ["0", str(len(self._entries)), *(f"{entry.epoch} {entry.start_offset}" for entry in self._entries)]
        write_atomically(self._disk, self._directory, FILE_NAME, "\n".join(lines) + "\n")
        self._is_written = True


def _parse(text: str) -> list[EpochStart]:
    lines = text.splitlines()
    try:
        if lines[0] != "0" or int(lines[1]) != len(lines) - 2:
            raise CorruptFile(f"{FILE_NAME}: version or count is wrong")
        entries = [EpochStart(*map(int, line.split(" "))) for line in lines[2:]]
    except (IndexError, ValueError, TypeError) as error:
        raise CorruptFile(f"{FILE_NAME}: {error}") from error
    for before, after in pairwise(entries):
        if before.epoch >= after.epoch or before.start_offset > after.start_offset:
            raise CorruptFile(f"{FILE_NAME}: epochs do not ascend")
    return entries
