"""The log of one partition on a real disk: appends, reads, limits, time, and what a bad disk leaves."""

import errno
from collections.abc import Sequence
from pathlib import Path

import pytest

from levada.model.buffers import Buffer
from levada.model.errors import KafkaStorageError, OffsetOutOfRange, RecordBatchTooLarge
from levada.storage.formats import ABORTED_TRANSACTION
from levada.storage.log import Log
from levada.world.real_disk import RealDisk, RealFile
from tests.logs import (
    T0,
    append,
    batch,
    batches_from,
    check_indexes,
    clean,
    end_transaction,
    killed,
    opened,
    read_all,
    run_search,
    values_of,
)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return opened(tmp_path / "t-0")


def test_offsets_follow_each_other_and_are_written_into_the_batches(log: Log) -> None:
    first, second = append(log, b"a", b"b", leader_epoch=5), append(log, b"c", leader_epoch=5)
    assert (first.base_offset, first.last_offset, second.base_offset) == (0, 1, 2)
    assert [(one.base_offset, one.partition_leader_epoch) for one in batches_from(log, 0)] == [(0, 5), (2, 5)]


def test_a_read_begins_with_the_batch_that_holds_the_offset(log: Log) -> None:
    for number in range(100):
        append(log, *(f"{number}-{part}".encode() for part in range(3)))
    for offset in range(300):
        batches = batches_from(log, offset)
        assert batches[0].base_offset <= offset <= batches[0].last_offset
        assert values_of(log, offset)[0] == f"{offset // 3}-{offset % 3}".encode()
    assert batches_from(log, 300) == []
    for offset in (-1, 301):
        with pytest.raises(OffsetOutOfRange):
            batches_from(log, offset)


def test_segments_are_read_across_and_after_a_restart(log: Log) -> None:
    expected = [(number, str(number).encode() * 20) for number in range(50)]
    for _, value in expected:
        append(log, value)
    assert len(log.segments) > 2
    assert list(read_all(log)) == expected
    assert list(read_all(log, max_bytes=1)) == expected
    log.close()
    again = opened(log.directory, state=clean(log))
    assert (again.end_offset, again.size) == (50, log.size)
    assert list(read_all(again)) == expected
    assert check_indexes(log.directory) > 10


def test_limits_cut_a_read_except_the_first_batch(log: Log) -> None:
    first = batch(b"x" * 300)
    append(log, b"x" * 300)
    append(log, b"y" * 300)
    cut = log.read(0, 10, at_least_one_batch=False, upper_offset=2)
    assert cut is not None
    assert len(cut) == 10
    whole = log.read(0, 10, at_least_one_batch=True, upper_offset=2)
    assert whole is not None
    assert len(whole) == first.size
    assert log.read(0, 0, at_least_one_batch=False, upper_offset=2) is None


def test_a_read_stops_before_the_upper_offset(log: Log) -> None:
    for number in range(10):
        append(log, b"%d" % number, b"")
    for upper in range(1, 21):
        found = log.read(0, 1 << 20, at_least_one_batch=True, upper_offset=upper)
        # Whole batches only: one that reaches the upper offset is not shown in part.
        assert (0 if found is None else len(found)) == (upper // 2) * batch(b"0", b"").size
    assert log.read(4, 100, at_least_one_batch=True, upper_offset=4) is None


def test_a_batch_larger_than_a_segment_is_refused(log: Log) -> None:
    with pytest.raises(RecordBatchTooLarge):
        append(log, bytes(1_000))
    assert append(log, b"next").base_offset == 0


def test_records_are_found_by_time(log: Log) -> None:
    assert run_search(log.search_newest()) is None
    for number in range(60):
        append(log, b"v", at_ms=T0 + number * 10)
    append(log, b"late", at_ms=T0)
    found = run_search(log.search_since(T0 + 301))
    assert found is not None
    assert (found.offset, found.timestamp_ms, found.leader_epoch) == (31, T0 + 310, 0)
    assert run_search(log.search_since(T0 + 10_000)) is None
    newest = run_search(log.search_newest())
    assert newest is not None
    assert newest.offset == 59


class BadDisk(RealDisk):
    """A real disk with files that take only a part of a write, or fail to be cut back, to be read or to be made."""

    def __init__(self) -> None:
        self.partial = self.stuck = self.unreadable = ""
        self.full = ""
        self.errno = errno.ENOSPC

    def open(self, path: str, *, create: bool = False, exclusive: bool = False) -> "BadFile":
        if self.full and path.endswith(self.full) and create:
            raise OSError(self.errno, "full", path)
        file = super().open(path, create=create, exclusive=exclusive)
        bad = BadFile(path, file.duplicate())
        bad.disk = self
        file.close()
        return bad


class BadFile(RealFile):
    __slots__ = ("disk",)
    disk: BadDisk

    def append(self, buffers: Sequence[Buffer]) -> int:
        if self.disk.partial and self.path.endswith(self.disk.partial):
            return super().append([bytes(buffers[0])[:7]])
        return super().append(buffers)

    def truncate(self, size: int) -> None:
        if self.disk.stuck and self.path.endswith(self.disk.stuck):
            raise OSError(errno.EIO, "stuck", self.path)
        super().truncate(size)

    def read(self, position: int, size: int) -> bytes:
        if self.disk.unreadable and self.path.endswith(self.disk.unreadable):
            raise OSError(errno.EIO, "unreadable", self.path)
        return super().read(position, size)


def test_a_short_write_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    disk = BadDisk()
    log = opened(tmp_path / "t-0", disk=disk)
    append(log, b"kept")
    disk.partial = ".log"
    with pytest.raises(KafkaStorageError):
        append(log, b"lost")
    disk.partial = ""
    assert append(log, b"next").base_offset == 1
    assert values_of(log) == [b"kept", b"next"]


def test_a_log_that_cannot_be_cut_back_goes_offline_and_recovers_at_the_next_start(tmp_path: Path) -> None:
    disk = BadDisk()
    log = opened(tmp_path / "t-0", disk=disk)
    append(log, b"kept")
    disk.partial = disk.stuck = ".log"
    with pytest.raises(KafkaStorageError):
        append(log, b"lost")
    disk.partial = disk.stuck = ""
    assert log.is_offline
    for use in (lambda: append(log, b"next"), lambda: batches_from(log, 0), log.begin_flush):
        with pytest.raises(KafkaStorageError, match="offline"):
            use()
    log.close()
    with pytest.raises(AssertionError):
        # The torn batch is still there, and is cut.
        opened(tmp_path / "t-0", state=killed(log))
    assert values_of(opened(tmp_path / "t-0", state=killed(log))) == [b"kept"]


def test_an_unreadable_disk_is_a_storage_error(tmp_path: Path) -> None:
    disk = BadDisk()
    log = opened(tmp_path / "t-0", disk=disk)
    append(log, b"a")
    disk.unreadable = ".log"
    for use in (
        lambda: log.read(0, 10, at_least_one_batch=True, upper_offset=1),
        lambda: run_search(log.search_since(0)),
    ):
        with pytest.raises(KafkaStorageError, match="unreadable"):
            use()
    disk.unreadable = ""
    assert values_of(log) == [b"a"]


@pytest.mark.parametrize("full", [".log", ".index", ".timeindex", ".snapshot"])
def test_a_roll_that_fails_leaves_nothing_that_ends_the_log(tmp_path: Path, full: str) -> None:
    disk = BadDisk()
    log = opened(tmp_path / "t-0", disk=disk)
    append(log, bytes(700))
    disk.full = full
    with pytest.raises(KafkaStorageError):
        append(log, bytes(700))
    # Smaller than what is left of the segment: it goes where the large one had no room.
    assert append(log, b"small").base_offset == 1
    disk.full = ""
    log_after_crash = opened(tmp_path / "t-0", state=killed(log))
    assert values_of(log_after_crash) == [bytes(700), b"small"]
    assert append(log, bytes(700)).base_offset == 2
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    log.close()
    assert values_of(opened(tmp_path / "t-0", state=clean(log))) == [bytes(700), b"small", bytes(700)]
    check_indexes(tmp_path / "t-0")


def test_an_abort_that_a_full_disk_does_not_note_is_known_and_noted_later(tmp_path: Path) -> None:
    disk = BadDisk()
    log = opened(tmp_path / "t-0", disk=disk)
    append(log, b"aborted", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    disk.full = ".txnindex"
    end_transaction(log, 7, commit=False)
    assert [(one.first_offset, one.last_offset) for one in log.aborted_transactions(0, 10)] == [(0, 1)]
    again = opened(tmp_path / "t-0", state=killed(log))
    assert [(one.first_offset, one.last_offset) for one in again.aborted_transactions(0, 10)] == [(0, 1)]
    with pytest.raises(KafkaStorageError):
        log.begin_flush()
    assert not log.is_offline
    disk.full = ""
    (tmp_path / "t-0" / f"{0:020d}.txnindex").unlink()
    log.end_flush(log.begin_flush())
    assert len((tmp_path / "t-0" / f"{0:020d}.txnindex").read_bytes()) == ABORTED_TRANSACTION.size


def test_an_abort_that_cannot_be_noted_for_another_reason_takes_the_log_offline(tmp_path: Path) -> None:
    disk = BadDisk()
    log = opened(tmp_path / "t-0", disk=disk)
    append(log, b"aborted", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    disk.full, disk.errno = ".txnindex", errno.EIO
    with pytest.raises(KafkaStorageError):
        end_transaction(log, 7, commit=False)
    assert log.is_offline
