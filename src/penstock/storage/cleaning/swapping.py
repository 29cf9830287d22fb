"""New segments in the place of those they were made from; a crash at any point leaves files that `loading` settles."""

import logging

from penstock.storage.cleaning.cleaner import CLEANED, CleanedGroup
from penstock.storage.log import Log
from penstock.storage.open_files import OpenFiles
from penstock.storage.segment import SUFFIXES, Segment
from penstock.world.disk import Disk

logger = logging.getLogger(__name__)

SWAP = ".swap"
DELETED = ".deleted"


def swap_in(disk: Disk, files: OpenFiles, log: Log, group: CleanedGroup) -> bool:
    """Let a cleaned segment take its sources' place; False, and it is removed, when the log has changed meanwhile."""
    sources = [segment for segment in log.segments[:-1] if segment.base_offset in group.source_bases]
    paths = [f"{log.directory}/{group.base_offset:020d}{suffix}" for suffix in SUFFIXES]
    if tuple(segment.base_offset for segment in sources) != group.source_bases or log.is_offline:
        remove_cleaned(disk, paths)
        return False
    try:
        present = [path for path in paths if disk.exists(path + CLEANED)]
        for path in present:
            disk.rename(path + CLEANED, path + SWAP)
        retired = [path for segment in sources for path in segment.rename(DELETED)]
        for path in present:
            disk.rename(path + SWAP, path)
        replacement = Segment(disk, files, log.directory, group.base_offset, log.config)
        replacement.size, replacement.next_offset = replacement.file.size(), sources[-1].next_offset
        log.replace_segments(len(sources), replacement, retired)
        disk.sync_directory(log.directory)
    except OSError as error:
        # Some files may have their new names and others not; opening the log again sorts them out.
        log.go_offline(error)
        return False
    return True


def remove_cleaned(disk: Disk, paths: list[str]) -> None:
    for path in paths:
        if disk.exists(path + CLEANED):
            disk.remove(path + CLEANED)
