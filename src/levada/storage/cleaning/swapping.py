"""New segments in the place of those they were made from.

In three steps, with the directory synced after each: a crash between two of them, or a power cut that keeps only some
of a step's renames, leaves files that `loading` settles to the old segments or to the new one, never to a mixture.
"""

from levada.storage.cleaning.cleaner import CleanedGroup
from levada.storage.log import Log
from levada.storage.open_files import OpenFiles
from levada.storage.segment import SUFFIXES, Segment
from levada.world.disk import Disk

SWAP = ".swap"
DELETED = ".deleted"


class Swap:
    """One group on its way into its log. Each step is False when the log has changed so that the group is of no use."""

    def __init__(self, disk: Disk, files: OpenFiles, log: Log, group: CleanedGroup, ending: str) -> None:
        self._disk = disk
        self._files = files
        self._log = log
        self._group = group
        self._ending = ending
        self._replacement: Segment | None = None

    def announce(self) -> bool:
        """The new segment is complete: from here on a crash finishes the swap."""
        if not self._sources():
            self._remove(self._ending)
            return False
        for path in self._paths(self._ending):
            self._disk.rename(path + self._ending, path + SWAP)
        return True

    def take_over(self) -> bool:
        """The log reads from the new segment; the old ones are retired."""
        sources = self._sources()
        if not sources:
            self._remove(SWAP)
            return False
        log, base_offset = self._log, self._group.base_offset
        retired = [path for segment in sources for path in segment.rename(DELETED)]
        replacement = Segment(self._disk, self._files, log.directory, base_offset, log.config, SWAP)
        replacement.size, replacement.next_offset = replacement.file.size(), sources[-1].next_offset
        log.replace_segments(len(sources), replacement, retired)
        self._replacement = replacement
        return True

    def settle(self) -> None:
        """The new segment gets the name that it will keep, unless retention has taken it meanwhile."""
        if self._replacement in self._log.segments and not self._log.is_offline:
            assert self._replacement is not None
            self._replacement.settle()

    def _sources(self) -> list[Segment]:
        """The segments to replace, if the log still has all of them in a row and closed."""
        log, wanted = self._log, self._group.source_bases
        found = [segment for segment in log.segments[:-1] if segment.base_offset in wanted]
        bases = tuple(segment.base_offset for segment in found)
        return found if bases == wanted and not log.is_offline else []

    def _paths(self, ending: str) -> list[str]:
        paths = [f"{self._log.directory}/{self._group.base_offset:020d}{suffix}" for suffix in SUFFIXES]
        return [path for path in paths if self._disk.exists(path + ending)]

    def _remove(self, ending: str) -> None:
        for path in self._paths(ending):
            self._disk.remove(path + ending)
