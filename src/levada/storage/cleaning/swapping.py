"""New segments in the place of those they were made from.

Step by step, with the directory synced after each: a crash between two of them, or a power cut that keeps only some
of a step's renames, leaves files that `loading` settles to the old segments or to the new one, never to a mixture. The
file of records is the last to get the ending `.swap` and the last to lose it: where it has it, all files of the new
segment are there, whatever else lies about in the directory.
"""

from collections.abc import Callable, Iterator
from functools import partial

from levada.storage.cleaning.cleaner import CleanedGroup
from levada.storage.log import Log
from levada.storage.open_files import OpenFiles
from levada.storage.segment import DELETED, INDEX_SUFFIXES, RECORDS_SUFFIX, SUFFIXES, SWAP, Segment
from levada.world.disk import Disk


class Swap:
    """One group on its way into its log."""

    def __init__(self, disk: Disk, files: OpenFiles, log: Log, group: CleanedGroup, ending: str) -> None:
        self._disk = disk
        self._files = files
        self._log = log
        self._group = group
        self._ending = ending
        self._replacement: Segment | None = None
        self._unreached: list[Segment] = []

    def steps(self) -> Iterator[Callable[[], bool]]:
        """To be done in turn, each on the device before the next; one is False where the group is of no use any more.

        A step that raises OSError because no file can be opened has done nothing, and may be tried again.
        """
        yield self._announce_indexes
        yield self._announce
        yield self._take_over
        for source in self._unreached:
            yield partial(self._retire, source)
        yield self._settle_indexes
        yield self._settle

    def _announce_indexes(self) -> bool:
        return self._announce_files(INDEX_SUFFIXES)

    def _announce(self) -> bool:
        """The new segment is complete: from here on a crash finishes the swap."""
        return self._announce_files((RECORDS_SUFFIX,))

    def _announce_files(self, suffixes: tuple[str, ...]) -> bool:
        if not self._sources():
            self._give_up()
            return False
        for path in self._paths(suffixes, self._ending):
            self._disk.rename(path + self._ending, path + SWAP)
        return True

    def _take_over(self) -> bool:
        """The log reads from the new segment; the old ones are retired.

        After a crash it is seen which of them the new one stands for by the offsets it has. Those behind its last
        record are retired later and in their order: without the youngest, what that had deleted would be back.
        """
        sources = self._sources()
        if not sources:
            self._give_up()
            return False
        log, group = self._log, self._group
        # First what needs files to be opened.
        log.touch()
        replacement = Segment(self._disk, self._files, log.directory, group.base_offset, log.config, SWAP)
        replacement.size, replacement.next_offset = replacement.file.size(), sources[-1].next_offset
        reached = [one for one in sources if one.base_offset < max(group.next_offset, group.base_offset + 1)]
        self._unreached = sources[len(reached) :]
        retired = [path for segment in reached for path in segment.rename(DELETED)]
        log.replace_segments(len(sources), replacement, retired)
        self._replacement = replacement
        return True

    def _retire(self, source: Segment) -> bool:
        self._log.retired_paths += source.rename(DELETED)
        return True

    def _settle_indexes(self) -> bool:
        """The new segment gets the names that it will keep, unless retention has taken it meanwhile."""
        if self._replacement in self._log.segments and not self._log.is_offline:
            assert self._replacement is not None
            self._replacement.settle_indexes()
        return True

    def _settle(self) -> bool:
        if self._replacement in self._log.segments and not self._log.is_offline:
            assert self._replacement is not None
            self._replacement.settle()
        return True

    def _sources(self) -> list[Segment]:
        """The segments to replace, if the log still has all of them in a row and closed."""
        log, wanted = self._log, self._group.source_bases
        found = [segment for segment in log.segments[:-1] if segment.base_offset in wanted]
        bases = tuple(segment.base_offset for segment in found)
        return found if bases == wanted and not log.is_offline else []

    def _paths(self, suffixes: tuple[str, ...], ending: str) -> list[str]:
        paths = [f"{self._log.directory}/{self._group.base_offset:020d}{suffix}" for suffix in suffixes]
        return [path for path in paths if self._disk.exists(path + ending)]

    def _give_up(self) -> None:
        for ending in (SWAP, self._ending):
            for path in self._paths(SUFFIXES, ending):
                self._disk.remove(path + ending)
