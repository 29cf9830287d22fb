"""Searches by time that are between two steps while the log goes on: segments retired, replaced, cut off or let go."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from levada.model.errors import KafkaStorageError
from levada.records import BatchView, iter_batches
from levada.storage.log import Log
from levada.storage.log_config import LogConfig
from levada.storage.lookups import Search
from levada.storage.open_files import OpenFiles
from levada.storage.segment import DELETED, Segment
from levada.world.real_disk import RealDisk
from tests.logs import T0, append, opened, run_search

# Times that go back, and no index: every search walks over all headers of a segment.
UNINDEXED = LogConfig(index_interval_bytes=1 << 30)
BATCHES = 600


class Searched:
    """A log of two closed segments, each with one late record at its end, and an active one."""

    def __init__(self, directory: Path) -> None:
        self.disk = RealDisk()
        self.files = OpenFiles(self.disk)
        self.log: Log = opened(directory / "t-0", UNINDEXED, disk=self.disk, files=self.files)
        for late_ms in (T0 + 10, T0 + 20):
            for number in range(BATCHES):
                append(self.log, b"early", at_ms=T0 - number)
            append(self.log, b"late", at_ms=late_ms)
            self.log.roll(self.log.end_offset, T0)
        append(self.log, b"last", at_ms=T0)

    def begin(self, timestamp_ms: int) -> Search:
        """A search that has let others have their turn, and is not over."""
        search = self.log.search_since(timestamp_ms)
        assert next(search) is None
        return search

    def replace(self, count: int, batches: Iterable[BatchView]) -> Segment:
        """Put one segment with these batches in the place of the first ones, as cleaning does."""
        log = self.log
        sources = log.segments[:count]
        retired = [path for one in sources for path in one.rename(DELETED)]
        segment = Segment(self.disk, self.files, log.directory, 0, UNINDEXED)
        segment.create()
        segment.reset_indexes()
        for one in batches:
            data = one.buffer[one.start : one.start + one.size]
            segment.append([data], one.size, one.last_offset, one.max_timestamp)
        segment.deactivate()
        segment.next_offset = sources[-1].next_offset
        log.replace_segments(count, segment, retired)
        return segment


def found(search: Search) -> tuple[int, int]:
    record = run_search(search)
    assert record is not None
    return record.offset, record.timestamp_ms


def test_a_search_goes_on_in_a_segment_that_retention_has_taken(tmp_path: Path) -> None:
    searched = Searched(tmp_path)
    search = searched.begin(T0 + 10)
    searched.log.retire_oldest(1)
    assert found(search) == (BATCHES, T0 + 10)


def test_a_search_goes_on_behind_a_segment_that_retention_has_taken(tmp_path: Path) -> None:
    searched = Searched(tmp_path)
    search = searched.begin(T0 + 20)
    searched.log.retire_oldest(2)
    append(searched.log, b"later", at_ms=T0 + 30)
    assert found(search) == (searched.log.end_offset - 1, T0 + 30)


def test_a_search_goes_on_in_the_file_that_cleaning_has_replaced_and_leaves_the_new_one_alone(tmp_path: Path) -> None:
    searched = Searched(tmp_path)
    search = searched.begin(T0 + 10)
    replacement = searched.replace(1, [])
    file = replacement.file
    assert found(search) == (BATCHES, T0 + 10)
    searched.files.close(replacement.path(".log"))
    assert replacement.file is not file, "it was not told to let go of its file"


def test_a_search_goes_on_in_the_segment_that_stands_for_the_next_one(tmp_path: Path) -> None:
    searched = Searched(tmp_path)
    search = searched.begin(T0 + 11)
    searched.replace(2, list(iter_batches(b"".join(one.file.read(0, one.size) for one in searched.log.segments[:2]))))
    assert found(search) == (2 * BATCHES + 1, T0 + 20)


def test_a_search_of_a_log_that_is_let_go_opens_none_of_its_files(tmp_path: Path) -> None:
    searched = Searched(tmp_path)
    search = searched.begin(T0 + 11)
    searched.log.abandon("the log was moved to another directory")
    assert len(searched.files) == 0
    with pytest.raises(KafkaStorageError):
        run_search(search)
    assert len(searched.files) == 0


def test_a_search_of_what_is_cut_off_meanwhile_is_a_storage_error(tmp_path: Path) -> None:
    searched = Searched(tmp_path)
    search = searched.begin(T0 + 10)
    searched.log.truncate(5, T0)
    with pytest.raises(KafkaStorageError):
        run_search(search)
