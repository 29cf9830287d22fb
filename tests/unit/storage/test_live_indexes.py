"""The index files of an active segment: what tools see in them while the log goes on."""

import errno
import os
from pathlib import Path

import pytest

from levada.cli.main import main
from levada.node import upkeep
from levada.storage import index_files
from levada.storage.formats import OFFSET_ENTRY, TIME_ENTRY
from levada.storage.live_indexes import write_index_entries
from levada.storage.log import Log
from levada.storage.log_config import LogConfig
from levada.world.real_disk import RealFile
from tests.logs import T0, append, clean, opened

CONFIG = LogConfig(index_interval_bytes=100, max_index_bytes=2_400)
NAME = f"{0:020d}"


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return opened(tmp_path / "t-0", CONFIG)


def grow(log: Log, batches: int) -> None:
    for _ in range(batches):
        append(log, b"x" * 90, b"y" * 90, at_ms=T0 + log.end_offset)


def entries(log: Log, suffix: str, size: int) -> bytes:
    """The file without the zeros behind its entries."""
    data = Path(log.directory, NAME + suffix).read_bytes()
    assert len(data) == CONFIG.max_index_bytes // size * size
    used = len(data.rstrip(b"\0"))
    return data[: -(-used // size) * size]


def expected(log: Log) -> tuple[bytes, bytes]:
    return log.active.offset_index.data, log.active.time_index.data


def written(log: Log) -> tuple[bytes, bytes]:
    return entries(log, ".index", OFFSET_ENTRY.size), entries(log, ".timeindex", TIME_ENTRY.size)


def test_entries_reach_the_files_and_the_files_keep_their_size(log: Log) -> None:
    for _ in range(3):
        grow(log, 5)
        assert written(log) != expected(log)
        assert write_index_entries(log)
        assert written(log) == expected(log)
        assert not write_index_entries(log)
    assert len(expected(log)[0]) == 14 * OFFSET_ENTRY.size


def test_entries_that_were_cut_off_are_gone_from_the_files_too(log: Log) -> None:
    grow(log, 10)
    write_index_entries(log)
    log.truncate(8, T0)
    assert written(log) == expected(log)
    grow(log, 5)
    write_index_entries(log)
    assert written(log) == expected(log)


def test_a_clean_stop_finds_nothing_different(log: Log, tmp_path: Path) -> None:
    other = opened(tmp_path / "t-1", CONFIG)
    grow(log, 10)
    grow(other, 10)
    write_index_entries(log)
    for each in (log, other):
        each.close()
    for suffix in (".index", ".timeindex"):
        seen, unseen = (Path(each.directory, NAME + suffix).read_bytes() for each in (log, other))
        assert seen == unseen


def test_an_untouched_log_is_left_alone(log: Log) -> None:
    grow(log, 10)
    log.close()
    again = opened(log.directory, CONFIG, state=clean(log))
    assert again.is_untouched
    before = Path(log.directory, NAME + ".index").read_bytes()
    again.active.offset_index.lookup(5)
    assert not write_index_entries(again)
    assert Path(log.directory, NAME + ".index").read_bytes() == before


@pytest.mark.parametrize(
    ("number", "goes_offline"),
    [(errno.ENOSPC, False), (errno.EMFILE, False), (errno.EIO, False), (errno.EROFS, True)],
)
def test_entries_that_the_disk_does_not_take_come_later(
    log: Log, monkeypatch: pytest.MonkeyPatch, number: int, goes_offline: bool
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    grow(log, 5)
    with monkeypatch.context() as patch:
        patch.setattr("levada.storage.segment.extend_index", refuse)
        write_index_entries(log)
    assert log.is_offline is goes_offline
    if not goes_offline:
        write_index_entries(log)
        assert written(log) == expected(log)


def test_a_short_write_leaves_no_half_entry_for_long(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = RealFile.append
    grow(log, 5)
    with monkeypatch.context() as patch:
        patch.setattr(RealFile, "append", lambda file, buffers: whole(file, [buffers[0][:5]]))
        with pytest.raises(OSError, match="only a part"):
            index_files.extend_index(
                log.active._disk, log.active._files, log.active.path(".index"), 0, log.active.offset_index.data
            )
    write_index_entries(log)
    assert written(log) == expected(log)


def test_dump_log_of_a_live_log_has_nothing_to_complain_of(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    grow(log, 1)
    paths = [str(Path(log.directory, NAME + suffix)) for suffix in (".index", ".timeindex")]
    assert main(["dump-log", "--files", ",".join(paths)]) == 0
    blank = capsys.readouterr()
    assert blank.err == ""
    assert "offset: 0 position: 0" in blank.out
    grow(log, 5)
    write_index_entries(log)
    assert main(["dump-log", "--files", ",".join(paths)]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.count("position: ") == len(log.active.offset_index) > 3
    assert "position: 0" not in printed.out


class FewLogs:
    def __init__(self, logs: list[Log]) -> None:
        self.logs = logs


def test_where_more_logs_are_busy_than_a_tick_serves_the_others_come_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "INDEXES_A_TICK", 2)
    logs = [opened(tmp_path / f"t-{number}", CONFIG) for number in range(5)]
    task = upkeep.Upkeep.__new__(upkeep.Upkeep)
    task._logs, task._next_index = FewLogs(logs), 0  # type: ignore[assignment]
    for _ in range(3):
        for log in logs:
            grow(log, 3)
        task._write_index_entries()
    # Two of five a tick: the first has had its second turn.
    assert [written(log) == expected(log) for log in logs] == [True, False, False, False, True]
