"""Opening a log again: nothing is scanned after a clean stop, only the doubtful part after a crash."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from levada.storage.checkpoint import read_offsets, write_offsets
from levada.storage.formats import CorruptFile
from levada.storage.loading import LogState, open_log
from levada.storage.log import Log
from levada.storage.log_config import LogConfig
from levada.storage.log_directory import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    START_OFFSETS,
    LogDirectory,
)
from levada.storage.recovery_task import decode_cuts, encode_task, recover
from levada.world.real_disk import RealDisk
from tests.logs import (
    SMALL,
    T0,
    CountingDisk,
    append,
    check_indexes,
    clean,
    delete_old_segments,
    end_transaction,
    killed,
    opened,
    read_all,
    run_search,
    values_of,
)


def fill(log: Log, count: int = 40) -> Log:
    for number in range(count):
        append(
            log,
            b"%02d" % number * 20,
            at_ms=T0 + number,
            leader_epoch=number // 15,
            producer_id=7,
            producer_epoch=0,
            base_sequence=number,
            is_transactional=True,
        )
        if number == 30:
            end_transaction(log, 7, commit=False)
    return log


def logs_read(disk: CountingDisk) -> dict[str, int]:
    return {name: size for name, size in disk.bytes_read.items() if name.endswith(".log")}


def test_after_a_clean_stop_only_the_tail_of_the_last_segment_is_read(tmp_path: Path) -> None:
    log = fill(opened(tmp_path / "t-0"), 60)
    log.close()
    disk = CountingDisk()
    again = opened(tmp_path / "t-0", disk=disk, state=clean(log))
    assert (again.end_offset, again.recovery_point) == (61, 61)
    read = logs_read(disk)
    assert set(read) <= {f"{log.active.base_offset:020d}.log"}
    # From the last index entry on.
    assert sum(read.values()) < SMALL.index_interval_bytes + 2 * 120
    assert disk.bytes_read.get(f"{0:020d}.index", 0) <= 2 * 8


def test_after_a_clean_stop_a_large_log_is_not_scanned(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", LogConfig(segment_bytes=1 << 20))
    for number in range(3_000):
        append(log, b"%04d" % number * 250)
    log.close()
    disk = CountingDisk()
    opened(tmp_path / "t-0", LogConfig(segment_bytes=1 << 20), disk=disk, state=clean(log))
    assert sum(logs_read(disk).values()) < 4096 + 2 * 1100
    assert log.size > 3_000_000


def test_after_a_crash_only_segments_from_the_recovery_point_on_are_read(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    fill(log, 20)
    log.flush()
    flushed = log.recovery_point
    for number in range(40):
        append(log, b"%02d" % number * 20)
    first_doubtful = max(segment.base_offset for segment in log.segments if segment.base_offset <= flushed)
    assert 0 < first_doubtful < log.segments[-2].base_offset
    disk = CountingDisk()
    again = opened(tmp_path / "t-0", disk=disk, state=killed(log))
    assert set(logs_read(disk)) == {
        f"{segment.base_offset:020d}.log" for segment in log.segments if segment.base_offset >= first_doubtful
    }
    assert list(read_all(again)) == list(read_all(log))
    assert again.recovery_point == flushed
    again.close()
    check_indexes(tmp_path / "t-0")


def test_the_segment_that_ends_at_the_recovery_point_is_recovered_too(tmp_path: Path) -> None:
    """It was flushed while active; its indexes were written when it was closed, which no flush has covered."""
    log = opened(tmp_path / "t-0")
    for number in range(5):
        append(log, b"%d" % number * 50, at_ms=T0 + number)
    log.flush()
    log.roll(5, T0)
    append(log, b"x")
    index = Path(log.segments[0].path(".index"))
    good = index.read_bytes()
    index.write_bytes(bytes(len(good)))
    state = LogState(recovery_point=5)
    opened(tmp_path / "t-0", state=state)
    assert index.read_bytes() == good


def test_a_crash_changes_nothing_that_was_written(tmp_path: Path) -> None:
    log = fill(opened(tmp_path / "t-0"))
    again = opened(tmp_path / "t-0", state=killed(log))
    assert list(read_all(again)) == list(read_all(log))
    assert again.epochs.entries == log.epochs.entries
    assert again.producers.entries() == log.producers.entries()
    assert again.aborted_transactions(0, 100) == log.aborted_transactions(0, 100)
    assert run_search(again.search_since(T0 + 25)) == run_search(log.search_since(T0 + 25))


@pytest.mark.parametrize("lost", [1, 20, 60, 61, 100])
def test_a_torn_tail_is_cut_at_the_last_whole_batch(tmp_path: Path, lost: int) -> None:
    log = opened(tmp_path / "t-0")
    for number in range(5):
        append(log, b"%d" % number)
    size = log.size
    path = Path(log.active.path(".log"))
    path.write_bytes(path.read_bytes()[: size - lost])
    again, cuts = open_log(RealDisk(), str(tmp_path / "t-0"), SMALL, now_ms=T0)
    whole = (size - lost) // (size // 5)
    assert again.end_offset == whole
    assert len(cuts) == ((size - lost) % (size // 5) > 0)
    assert path.stat().st_size == whole * (size // 5)
    assert append(again, b"new").base_offset == whole


@pytest.mark.parametrize("tail", [bytes(500), b"\xff" * 500, bytes(8) + (30).to_bytes(4, "big") + bytes(60)])
def test_zeros_and_garbage_after_the_last_batch_are_cut(tmp_path: Path, tail: bytes) -> None:
    log = opened(tmp_path / "t-0")
    append(log, b"good")
    path = Path(log.active.path(".log"))
    path.write_bytes(path.read_bytes() + tail)
    again, (cut,) = open_log(RealDisk(), str(tmp_path / "t-0"), SMALL, now_ms=T0)
    assert (cut.path, cut.lost_bytes) == (str(path), len(tail))
    assert values_of(again) == [b"good"]


def test_damage_in_an_old_segment_drops_what_follows_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = fill(opened(tmp_path / "t-0"))
    second = log.segments[1]
    path = Path(second.path(".log"))
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    again, (cut,) = open_log(RealDisk(), str(tmp_path / "t-0"), SMALL, now_ms=T0)
    assert cut.path == str(path)
    assert "CRC" in cut.reason
    assert second.base_offset < again.end_offset < log.segments[2].base_offset
    assert len(list((tmp_path / "t-0").glob("*.log"))) == 2
    assert caplog.text.count("behind a cut") == len(log.segments) - 2
    assert again.epochs.entries[-1].start_offset < again.end_offset
    known = again.producers.get(7)
    assert known is not None
    assert known.last_sequence == again.end_offset - 1


def test_what_lies_behind_a_hole_is_cut_off_too(tmp_path: Path) -> None:
    log = fill(opened(tmp_path / "t-0"))
    path = Path(log.segments[1].path(".log"))
    place = log.segments[1].first_batch_to_contain(log.segments[1].next_offset - 1)
    assert place is not None
    path.write_bytes(path.read_bytes()[: place.position])
    again, (cut,) = open_log(RealDisk(), str(tmp_path / "t-0"), SMALL, now_ms=T0)
    assert "behind it" in cut.reason
    assert cut.lost_bytes == sum(segment.size for segment in log.segments[2:])
    assert again.end_offset == place.header.base_offset
    assert append(again, b"on", leader_epoch=9).base_offset == again.end_offset - 1


def test_recovery_in_a_worker_is_recovery_in_process(tmp_path: Path) -> None:
    log = fill(opened(tmp_path / "t-0"))
    path = Path(log.active.path(".log"))
    path.write_bytes(path.read_bytes()[:-10])
    shutil.copytree(tmp_path / "t-0", tmp_path / "u-0")
    here, cuts = open_log(RealDisk(), str(tmp_path / "t-0"), SMALL, now_ms=T0)
    here.close()
    reply = recover(encode_task(str(tmp_path / "u-0"), SMALL, LogState(), T0), RealDisk())
    assert [replace(cut, path="") for cut in decode_cuts(reply)] == [replace(cut, path="") for cut in cuts]
    files = {path.name: path.read_bytes() for path in (tmp_path / "t-0").iterdir()}
    assert {path.name: path.read_bytes() for path in (tmp_path / "u-0").iterdir()} == files
    there = opened(tmp_path / "u-0", state=LogState(was_clean=True))
    assert list(read_all(there)) == list(read_all(here))
    assert there.producers.entries() == here.producers.entries()


def directory_in(path: Path, disk: RealDisk | None = None) -> LogDirectory:
    made = LogDirectory(disk or RealDisk(), str(path), SMALL, lambda _: 0)
    made.begin()
    return made


def test_checkpoints_and_the_mark_of_a_clean_stop_are_kafkas(tmp_path: Path) -> None:
    logs = directory_in(tmp_path)
    first, _ = logs.open("a-b", 0, T0)
    second, _ = logs.open("c", 11, T0)
    fill(first)
    append(second, b"x")
    first.raise_start(33)
    delete_old_segments(first)
    logs.close(broker_epoch=5)
    assert (tmp_path / RECOVERY_POINTS).read_text() == "0\n2\na-b 0 41\nc 11 1\n"
    assert (tmp_path / HIGH_WATERMARKS).read_text() == "0\n2\na-b 0 41\nc 11 1\n"
    assert (tmp_path / START_OFFSETS).read_text() == "0\n1\na-b 0 33\n"
    assert (tmp_path / CLEAN_SHUTDOWN).read_text() == json.dumps(
        {"version": 0, "brokerEpoch": 5}, separators=(",", ":")
    )
    again = directory_in(tmp_path)
    assert again.was_clean
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()
    log, cuts = again.open("a-b", 0, T0)
    assert (cuts, log.start_offset, log.end_offset, log.high_watermark) == ([], 33, 41, 41)
    assert not directory_in(tmp_path).was_clean


@pytest.mark.parametrize(
    "text", ["x", "1\n0\n", "0\n2\na 0 1\n", "0\n1\na 0\n", "0\n1\na 0 x\n", "0\n1\na b 0 1\n", "0"]
)
def test_a_malformed_checkpoint_is_ignored_and_said(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    logs = directory_in(tmp_path)
    fill(logs.open("a", 0, T0)[0])
    logs.close(broker_epoch=0)
    for name in (RECOVERY_POINTS, START_OFFSETS, HIGH_WATERMARKS):
        (tmp_path / name).write_text(text)
    with pytest.raises(CorruptFile):
        read_offsets(RealDisk(), str(tmp_path), RECOVERY_POINTS)
    (tmp_path / CLEAN_SHUTDOWN).unlink()
    again = directory_in(tmp_path)
    log, cuts = again.open("a", 0, T0)
    assert (cuts, log.end_offset, log.recovery_point, log.high_watermark) == ([], 41, 0, 0)
    assert caplog.text.count("ignored checkpoint") == 3


def test_an_empty_checkpoint_has_no_entries(tmp_path: Path) -> None:
    assert read_offsets(RealDisk(), str(tmp_path), RECOVERY_POINTS) == {}
    (tmp_path / RECOVERY_POINTS).write_text("")
    assert read_offsets(RealDisk(), str(tmp_path), RECOVERY_POINTS) == {}
    write_offsets(RealDisk(), str(tmp_path), RECOVERY_POINTS, {("t", 3): 9})
    assert read_offsets(RealDisk(), str(tmp_path), RECOVERY_POINTS) == {("t", 3): 9}


def test_a_stop_with_an_offline_log_is_not_clean(tmp_path: Path) -> None:
    logs = directory_in(tmp_path)
    log, _ = logs.open("a", 0, T0)
    fill(log)
    log.fail_flush(OSError("lost"))
    logs.close(broker_epoch=0)
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()
    again = directory_in(tmp_path)
    assert again.open("a", 0, T0)[0].end_offset == 41


def test_a_stop_whose_flush_fails_is_not_clean_and_closes_the_other_logs(tmp_path: Path) -> None:
    disk = CountingDisk()
    logs = directory_in(tmp_path, disk)
    for topic in ("a", "b"):
        fill(logs.open(topic, 0, T0)[0])
    disk.fails_to_sync = True
    logs.close(broker_epoch=0)
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()
    assert disk.files_open == 0


def test_all_logs_of_a_directory_share_one_limit_of_open_files(tmp_path: Path) -> None:
    disk = CountingDisk()
    logs = directory_in(tmp_path, disk)
    for partition in range(30):
        append(logs.open("t", partition, T0)[0], b"x")
    assert len(logs.files) == disk.files_open >= 30
    logs.close(broker_epoch=0)
    assert disk.files_open == 0


def test_how_much_must_be_read_is_known_before(tmp_path: Path) -> None:
    logs = directory_in(tmp_path)
    log, _ = logs.open("a", 0, T0)
    fill(log, 20)
    log.flush()
    logs.write_checkpoints()
    for number in range(40):
        append(log, b"%02d" % number * 20)
    again = directory_in(tmp_path)
    flushed = [segment for segment in log.segments if segment.next_offset <= 20]
    assert flushed
    assert again.unflushed("a", 0).size == log.size - sum(segment.size for segment in flushed)
