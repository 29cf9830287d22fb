"""A disk that fills up is warned of once for each limit that it passes, and again after it had room."""

import errno
import logging
from pathlib import Path

import pytest

from levada.node.disk_usage import CHECK_INTERVAL_MS, DiskUsage
from levada.storage.log_config import LogConfig
from levada.storage.log_directories import LogDirectories
from levada.storage.log_directory import LogDirectory
from levada.world.real import RealClock
from levada.world.real_disk import RealDisk

TOTAL = 1_000


class SteppedClock(RealClock):
    elapsed_ms = 0

    def monotonic_ms(self) -> int:
        return self.elapsed_ms


class MeasuredDisk(RealDisk):
    """Says how full it is as a test wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.used: dict[str, int] = {}

    def space(self, path: str) -> tuple[int, int]:
        if path not in self.used:
            raise OSError(errno.EIO, "the device does not answer", path)
        return TOTAL, TOTAL - self.used[path]


class Watched:
    """Two directories on disks of their own, looked at each time they are asked for."""

    def __init__(self, root: Path, warn_percent: int = 80) -> None:
        self.disk = MeasuredDisk()
        self.paths = [str(root / name) for name in ("a", "b")]
        self.disk.used = dict.fromkeys(self.paths, 0)
        self.logs = LogDirectories([LogDirectory(self.disk, path, LogConfig(), lambda _: 0) for path in self.paths])
        self.clock = SteppedClock()
        self._usage = DiskUsage(self.logs, self.clock, warn_percent)

    def look(self, *used: int, after_ms: int = CHECK_INTERVAL_MS) -> None:
        self.disk.used |= dict(zip(self.paths, used))
        self.clock.elapsed_ms += after_ms
        self._usage.check()


@pytest.fixture(autouse=True)
def heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "levada.node.disk_usage")


def levels(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(one.levelno, one.getMessage().partition(" directory=")[0]) for one in caplog.records]


def test_a_limit_that_is_passed_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(tmp_path)
    for used in (799, 800, 850, 949):
        watched.look(used)
    assert levels(caplog) == [(logging.WARNING, "disk fills up")]
    text = f"directory={watched.paths[0]} used_percent=80 usable_bytes=200; shorten retention or move replicas"
    assert caplog.messages[0].endswith(text)


def test_nearly_full_is_an_error_and_room_again_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(tmp_path)
    for used in (800, 950, 1_000, 949, 799, 800):
        watched.look(used)
    fills, room = "disk fills up", "disk has room again"
    assert levels(caplog) == [
        (logging.WARNING, fills),
        (logging.ERROR, fills),
        (logging.INFO, room),
        (logging.INFO, room),
        (logging.WARNING, fills),
    ]


def test_a_disk_that_is_full_at_once_is_said_once_and_as_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Watched(tmp_path).look(990)
    assert levels(caplog) == [(logging.ERROR, "disk fills up")]


def test_a_limit_above_the_urgent_one_is_the_only_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(tmp_path, warn_percent=98)
    for used in (950, 979, 980):
        watched.look(used)
    assert levels(caplog) == [(logging.ERROR, "disk fills up")]


def test_every_directory_is_looked_at_by_itself(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(tmp_path)
    watched.look(0, 900)
    watched.look(900, 0)
    assert [path for line in caplog.messages for path in watched.paths if path in line] == [
        watched.paths[1],
        watched.paths[0],
        watched.paths[1],
    ]


def test_it_looks_no_more_often_than_it_should(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched(tmp_path)
    watched.look(0)
    watched.look(900, after_ms=CHECK_INTERVAL_MS - 1)
    assert caplog.messages == []
    watched.look(900, after_ms=1)
    assert len(caplog.messages) == 1


def test_a_disk_that_does_not_answer_has_failed_and_the_others_are_looked_at(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watched = Watched(tmp_path)
    del watched.disk.used[watched.paths[0]]
    watched.look()
    watched.disk.used[watched.paths[1]] = 900
    watched.look()
    assert [one.directory for one in watched.logs.offline] == [watched.paths[0]]
    assert len(caplog.messages) == 1
