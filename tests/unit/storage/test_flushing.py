"""When a log is brought to the device, what that covers, and what happens when it fails."""

import errno
from pathlib import Path

import pytest

from levada.model.errors import KafkaStorageError
from levada.storage.log_config import LogConfig
from levada.storage.open_files import OpenFiles
from levada.storage.producers import Origin
from levada.world.disk import SyncFailed
from levada.world.real_disk import RealDisk, RealFile
from tests.logs import SMALL, T0, CountingDisk, append, batch, clean, opened


def test_by_default_no_flush_is_ever_due(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", LogConfig())
    for number in range(100):
        assert not append(log, b"v", now_ms=T0 + number * 10**9).is_flush_due
    assert not log.flush_due(T0 + 10**15)
    assert log.recovery_point == 0


def test_flush_messages_counts_records_since_the_last_flush(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", LogConfig(flush_messages=3))
    assert not append(log, b"a", b"b").is_flush_due
    assert append(log, b"c").is_flush_due
    log.flush()
    assert log.recovery_point == 3
    assert not append(log, b"d", b"e").is_flush_due
    assert append(log, b"f", b"g").is_flush_due


def test_flush_ms_counts_from_the_first_record_that_is_not_flushed(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", LogConfig(flush_ms=1_000))
    assert not log.flush_due(T0 + 10**9)
    append(log, b"a", now_ms=T0)
    append(log, b"b", now_ms=T0 + 900)
    assert not log.flush_due(T0 + 999)
    assert log.flush_due(T0 + 1_000)
    log.flush()
    assert not log.flush_due(T0 + 10**9)
    append(log, b"c", now_ms=T0 + 5_000)
    assert not log.flush_due(T0 + 5_999)
    # The node looks after it; as in Apache, no append waits for it.
    assert not append(log, b"d", now_ms=T0 + 6_000).is_flush_due
    assert log.flush_due(T0 + 6_000)


def test_a_flush_covers_what_was_there_when_it_began(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", LogConfig())
    append(log, b"a")
    due = log.begin_flush()
    append(log, b"b")
    log.end_flush(due)
    assert log.recovery_point == 1


def test_a_truncation_during_a_flush_is_not_covered_by_it(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", LogConfig())
    for value in (b"a", b"b", b"c"):
        append(log, value)
    due = log.begin_flush()
    log.truncate(1, T0)
    for value in (b"d", b"e"):
        append(log, value)
    log.end_flush(due)
    assert log.recovery_point == 1
    log.flush()
    assert log.recovery_point == 3


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC])
def test_a_flush_for_which_no_file_can_be_opened_is_only_late(tmp_path: Path, code: int) -> None:
    log = opened(tmp_path / "t-0", LogConfig(flush_ms=1_000))
    append(log, b"a", now_ms=T0)
    due = log.begin_flush()
    append(log, b"b", now_ms=T0 + 900)
    refused = OSError(code, "not now")
    assert "not now" in str(log.fail_flush(refused, due))
    assert not log.is_offline
    # It is as due as it was.
    assert log.flush_due(T0 + 1_000)
    log.flush()
    assert log.recovery_point == 2


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.ENOMEM])
def test_a_sync_that_fails_for_whatever_reason_takes_the_log_offline(tmp_path: Path, code: int) -> None:
    log = opened(tmp_path / "t-0", LogConfig())
    append(log, b"a")
    log.fail_flush(SyncFailed(code, "lost"), log.begin_flush())
    assert log.is_offline


@pytest.mark.parametrize("name", [".log", "leader-epoch-checkpoint.tmp"])
def test_a_flush_that_cannot_begin_for_want_of_files_can_be_begun_again(tmp_path: Path, name: str) -> None:
    class Busy(RealDisk):
        def open(self, path: str, *, create: bool = False, exclusive: bool = False) -> RealFile:
            if is_busy and path.endswith(name):
                raise OSError(errno.EMFILE, "too many open files", path)
            return super().open(path, create=create, exclusive=exclusive)

    is_busy = False
    files = OpenFiles(disk := Busy())
    log = opened(tmp_path / "t-0", LogConfig(), disk=disk, files=files)
    append(log, b"a")
    files.close_all()
    is_busy = True
    with pytest.raises(KafkaStorageError, match="too many"):
        log.begin_flush()
    is_busy = False
    log.flush()
    assert log.recovery_point == 1


def test_records_are_deleted_though_the_epochs_cannot_be_written_yet(tmp_path: Path) -> None:
    class Busy(RealDisk):
        def open(self, path: str, *, create: bool = False, exclusive: bool = False) -> RealFile:
            if is_busy and path.endswith("leader-epoch-checkpoint.tmp"):
                raise OSError(errno.EMFILE, "too many open files", path)
            return super().open(path, create=create, exclusive=exclusive)

    is_busy = False
    log = opened(tmp_path / "t-0", LogConfig(), disk=Busy())
    for value in (b"a", b"b"):
        append(log, value)
    log.set_high_watermark(2)
    log.flush()
    is_busy = True
    log.raise_start(1)
    assert log.start_offset == 1
    is_busy = False
    append(log, b"c")
    log.flush()
    assert (tmp_path / "t-0" / "leader-epoch-checkpoint").read_text().split()[2:] == ["0", "1"]


def test_flushes_that_end_in_another_order_do_not_go_back(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", LogConfig())
    append(log, b"a")
    first = log.begin_flush()
    append(log, b"b")
    second = log.begin_flush()
    log.end_flush(second)
    log.end_flush(first)
    assert log.recovery_point == 2


def test_a_flush_beside_one_that_fails_does_not_count(tmp_path: Path) -> None:
    """A sync that fails is told of once: another one that covers the same pages passes."""
    log = opened(tmp_path / "t-0", LogConfig())
    append(log, b"v")
    first, second = log.begin_flush(), log.begin_flush()
    log.fail_flush(OSError(errno.EIO, "the device is gone"))
    for due in (second, first):
        with pytest.raises(KafkaStorageError, match="the device is gone"):
            log.end_flush(due)
    assert log.recovery_point == 0


def test_a_flush_syncs_every_segment_since_the_last_with_indexes_and_snapshots(tmp_path: Path) -> None:
    disk = CountingDisk()
    log = opened(tmp_path / "t-0", SMALL, disk=disk)
    while len(log.segments) < 4:
        append(log, bytes(100), producer_id=7, producer_epoch=0, base_sequence=log.end_offset)
    disk.synced.clear()
    log.flush()
    closed = [f"{segment.base_offset:020d}" for segment in log.segments[:-1]]
    active = f"{log.active.base_offset:020d}"
    expected = {f"{stem}{suffix}" for stem in closed for suffix in (".log", ".index", ".timeindex")}
    expected |= {f"{stem}.snapshot" for stem in [*closed[1:], active]} | {f"{active}.log"}
    assert set(disk.synced) == expected | {"leader-epoch-checkpoint.tmp"}
    disk.synced.clear()
    append(log, b"more", producer_id=7, producer_epoch=0, base_sequence=log.end_offset)
    log.flush()
    assert {f"{active}.log"} <= set(disk.synced) <= {f"{active}.log", f"{active}.snapshot"}


def test_indexes_of_a_segment_closed_right_after_a_flush_are_synced_by_the_next(tmp_path: Path) -> None:
    disk = CountingDisk()
    log = opened(tmp_path / "t-0", SMALL, disk=disk)
    append(log, b"a")
    log.flush()
    assert log.recovery_point == 1
    disk.synced.clear()
    log.roll(1, T0)
    append(log, b"b")
    log.flush()
    assert {f"{0:020d}.index", f"{0:020d}.timeindex", f"{1:020d}.snapshot"} <= set(disk.synced)


def test_closing_syncs_the_indexes_and_the_snapshot_at_the_end(tmp_path: Path) -> None:
    disk = CountingDisk()
    log = opened(tmp_path / "t-0", SMALL, disk=disk)
    append(log, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    log.close()
    expected = {f"{0:020d}{suffix}" for suffix in (".log", ".index", ".timeindex")} | {f"{1:020d}.snapshot"}
    assert expected <= set(disk.synced)
    assert log.recovery_point == 1


def test_a_failed_flush_takes_the_log_offline_and_is_never_repeated(tmp_path: Path) -> None:
    disk = CountingDisk()
    log = opened(tmp_path / "t-0", SMALL, disk=disk)
    append(log, b"a")
    disk.fails_to_sync = True
    with pytest.raises(KafkaStorageError):
        log.flush()
    disk.fails_to_sync = False
    disk.synced.clear()
    assert log.is_offline
    for use in (
        log.flush,
        log.begin_flush,
        lambda: log.append(batch(b"b"), leader_epoch=0, origin=Origin.CLIENT, now_ms=T0),
        lambda: log.read(0, 1, at_least_one_batch=True, upper_offset=1),
    ):
        with pytest.raises(KafkaStorageError, match="offline"):
            use()
    assert not log.flush_due(T0 + 10**15)
    log.close()
    assert disk.synced == []
    assert log.recovery_point == 0


def test_a_flush_that_failed_elsewhere_takes_the_log_offline(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", SMALL)
    append(log, b"a")
    log.begin_flush()
    log.fail_flush(OSError(errno.EIO, "lost"))
    with pytest.raises(KafkaStorageError, match="lost"):
        log.flush()


def test_a_log_that_was_closed_is_flushed_to_its_end(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", SMALL)
    append(log, b"a")
    log.close()
    assert opened(tmp_path / "t-0", SMALL, state=clean(log)).recovery_point == 1
