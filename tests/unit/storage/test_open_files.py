"""A log with many segments keeps few files open, and never closes one under a reader."""

import gc
import os
from pathlib import Path

import pytest

from levada.records import iter_batches
from levada.storage.log_config import LogConfig
from levada.storage.open_files import OpenFiles
from levada.world.real_disk import RealDisk
from tests.logs import T0, CountingDisk, append, delete_old_segments, opened, read_all, run_search

LIMIT = 8
SMALL = LogConfig(segment_bytes=100, max_index_bytes=240)


def test_the_file_that_was_opened_first_is_let_go(tmp_path: Path) -> None:
    disk = CountingDisk()
    files = OpenFiles(disk, limit=2)
    kept = [files.get(f"{tmp_path}/{name}", create=True) for name in ("a", "b", "c")]
    assert len(files) == 2
    assert [files.get(f"{tmp_path}/{name}") is file for name, file in zip("cb", reversed(kept))] == [True, True]
    assert files.get(f"{tmp_path}/a") is not kept[0]
    assert disk.files_open == 4
    kept.clear()
    assert disk.files_open == 2


def test_who_holds_a_file_is_told_to_let_go_of_it(tmp_path: Path) -> None:
    files = OpenFiles(CountingDisk(), limit=2)
    told: list[str] = []
    for name in ("a", "b", "c", "d"):
        (tmp_path / name).touch()
    for name in ("a", "b"):
        files.hold(f"{tmp_path}/{name}", lambda name=name: told.append(name))  # type: ignore[misc]
    files.get(f"{tmp_path}/c")
    assert told == ["a"]
    files.close(f"{tmp_path}/b")
    assert told == ["a", "b"]
    files.close(f"{tmp_path}/b")
    files.get(f"{tmp_path}/d")
    files.close_all()
    assert told == ["a", "b"]


def test_a_log_whose_file_was_let_go_goes_on(tmp_path: Path) -> None:
    disk = CountingDisk()
    files = OpenFiles(disk, limit=1)
    logs = [opened(tmp_path / f"t-{number}", disk=disk, files=files) for number in range(3)]
    for number in range(12):
        append(logs[number % 3], b"%d" % number)
        assert disk.files_open == 1
    for index, log in enumerate(logs):
        assert [value for _, value in read_all(log)] == [b"%d" % number for number in range(index, 12, 3)]
    for log in logs:
        log.close()
    assert disk.files_open == 0


def test_a_log_of_many_segments_keeps_within_the_limit(tmp_path: Path) -> None:
    disk = CountingDisk()
    files = OpenFiles(disk, LIMIT)
    log = opened(tmp_path / "t-0", SMALL, disk=disk, files=files)
    expected = []
    for number in range(100):
        append(log, b"%d" % number, at_ms=T0 + number)
        expected.append((number, b"%d" % number))
        assert disk.files_open <= LIMIT
    assert len(log.segments) == 100
    assert list(read_all(log)) == expected
    assert run_search(log.search_since(T0 + 50)) is not None
    assert disk.files_open <= LIMIT
    log.flush()
    gc.collect()
    assert disk.files_open <= LIMIT
    log.close()
    files.close_all()
    assert disk.files_open == 0


def test_a_range_on_its_way_keeps_its_file_however_many_are_opened_since(tmp_path: Path) -> None:
    disk = CountingDisk()
    files = OpenFiles(disk, LIMIT)
    log = opened(tmp_path / "t-0", SMALL, disk=disk, files=files)
    for number in range(50):
        append(log, b"%d" % number)
    pending = [log.read(offset, 1_000, at_least_one_batch=True, upper_offset=50) for offset in range(5)]
    for offset in range(50):
        log.read(offset, 1_000, at_least_one_batch=True, upper_offset=50)
    assert len(files) <= LIMIT
    assert disk.files_open <= LIMIT + len(pending)
    for offset, one in enumerate(pending):
        assert one is not None
        (found,) = iter_batches(one.file.read(one.position, one.size))
        assert [record.value for record in found.records()] == [b"%d" % offset]
    del one, found
    pending.clear()
    assert disk.files_open <= LIMIT


def test_a_range_outlives_its_segment_and_its_log(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", SMALL)
    for number in range(10):
        append(log, b"%d" % number)
    pending = log.read(0, 1_000, at_least_one_batch=True, upper_offset=10)
    assert pending is not None
    log.raise_start(9)
    assert delete_old_segments(log) == 9
    log.close()
    (found,) = iter_batches(pending.file.read(pending.position, pending.size))
    assert [record.value for record in found.records()] == [b"0"]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors are counted in /proc")
def test_no_descriptor_is_left_behind(tmp_path: Path) -> None:
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    log = opened(tmp_path / "t-0", SMALL, disk=RealDisk(), files=OpenFiles(RealDisk(), LIMIT))
    for number in range(50):
        append(log, b"%d" % number, producer_id=7, producer_epoch=0, base_sequence=number)
    log.flush()
    list(read_all(log))
    log.close()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before
