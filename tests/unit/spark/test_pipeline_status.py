"""What `pipeline status` says: of a pipeline that runs, one that ended, and one that was killed."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from levada.spark.pipeline.problems import PipelineError, QueryFailed
from levada.spark.pipeline.progress import QueryProgress
from levada.spark.pipeline.status import (
    FAILED,
    KILLED,
    RUNNING,
    STOPPED,
    StatusFile,
    lines_of,
    read_status,
    refuse_second,
)

BEGAN = "2026-11-18T04:00:00.000Z"
PROGRESS = [
    QueryProgress("totals", 12, 3_400, 3_412.4, 840, 60, timestamp=BEGAN),
    QueryProgress("kept", -1, 0, 0.0, 0, None, "waiting for the database"),
]


def test_a_pipeline_that_runs_is_described_by_its_queries(tmp_path: Path) -> None:
    with StatusFile(str(tmp_path), "shop") as file:
        file.note(PROGRESS)
        status = read_status(str(tmp_path), "shop")
        assert status is not None
        assert status.state == RUNNING
        head, titles, *rows = lines_of(status, {"totals": 7})
        assert head == f"pipeline shop: running, process {os.getpid()}, since {status.since}"
        assert titles.split() == ["QUERY", "STATE", "BATCH", "EVENTS/S", "LAG", "LAST", "BATCH", "TOOK", "NOTE"]
        assert rows[0].split() == ["totals", "running", "12", "3.4k", "7", BEGAN, "840", "ms"]
        assert rows[1].split() == ["kept", "running", "-", "-", "-", "-", "-", "waiting", "for", "the", "database"]
        file.end(STOPPED)
    status = read_status(str(tmp_path), "shop")
    assert status is not None
    assert status.state == STOPPED
    assert [query.state for query in status.queries] == [STOPPED, STOPPED]
    assert f", until {status.until}" in lines_of(status, {})[0]


def test_the_query_that_failed_has_the_error(tmp_path: Path) -> None:
    with StatusFile(str(tmp_path), "shop") as file:
        file.note(PROGRESS)
        failure = QueryFailed("kept", "two rows for one key: id")
        file.end(FAILED, str(failure), failure)
    status = read_status(str(tmp_path), "shop")
    assert status is not None
    assert [(query.state, query.note) for query in status.queries] == [
        (STOPPED, ""),
        (FAILED, "two rows for one key: id"),
    ]
    assert lines_of(status, {})[0].endswith(": kept: two rows for one key: id")


def test_a_process_that_was_killed_has_not_stopped(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom levada.spark.pipeline.status import StatusFile\n"
        "with StatusFile(sys.argv[1], 'shop'):\n    print('held', flush=True)\n    time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    status = read_status(str(tmp_path), "shop")
    assert status is not None
    assert (status.state, status.process) == (RUNNING, process.pid)
    with pytest.raises(PipelineError, match="runs already with the checkpoint"), StatusFile(str(tmp_path), "shop"):
        pass
    process.send_signal(signal.SIGKILL)
    process.communicate()
    status = read_status(str(tmp_path), "shop")
    assert status is not None
    assert status.state == KILLED


def test_a_query_is_run_by_one_pipeline_at_a_time(tmp_path: Path) -> None:
    place = str(tmp_path)
    said = f"query 'kept' of another pipeline runs already with the checkpoint {place}: stop it, or give another"
    with StatusFile(place, "shop", ["totals", "kept"]) as first:
        with pytest.raises(PipelineError, match=said), StatusFile(place, "copy", ["new", "kept"]):
            pass
        with pytest.raises(PipelineError, match=said):
            refuse_second(place, "copy", ["new", "kept"])
        with pytest.raises(PipelineError, match="pipeline 'shop' runs already"):
            refuse_second(place, "shop", [])
        # What was refused holds nothing.
        with StatusFile(place, "copy", ["new"]) as other:
            other.end(STOPPED)
        first.end(STOPPED)
    refuse_second(place, "shop", ["totals", "kept"])
    refuse_second(str(tmp_path / "nowhere"), "shop", ["kept"])


def test_what_ends_a_run_otherwise_is_said_too(tmp_path: Path) -> None:
    def run() -> None:
        with StatusFile(str(tmp_path), "shop") as file:
            file.note(PROGRESS)
            raise OSError("no answer")

    with pytest.raises(OSError, match="no answer"):
        run()
    status = read_status(str(tmp_path), "shop")
    assert status is not None
    assert (status.state, status.error) == (FAILED, "no answer")


def test_a_status_that_cannot_be_written_stops_no_pipeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with StatusFile(str(tmp_path), "shop") as file:
        (tmp_path / "shop.status.tmp").mkdir()
        file.note(PROGRESS)
        file.note(PROGRESS[:1])
        assert capsys.readouterr().err.count("the status of the pipeline is not kept") == 1
        (tmp_path / "shop.status.tmp").rmdir()
        file.end(STOPPED)
    status = read_status(str(tmp_path), "shop")
    assert status is not None
    assert status.state == STOPPED


def test_one_who_looks_keeps_no_run_from_starting(tmp_path: Path) -> None:
    with StatusFile(str(tmp_path), "shop") as file:
        file.end(STOPPED)
    with (tmp_path / "shop.status.lock").open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        timer = threading.Timer(0.1, lambda: fcntl.flock(looking, fcntl.LOCK_UN))
        timer.start()
        with StatusFile(str(tmp_path), "shop") as file:
            file.end(STOPPED)
        timer.join()


def test_what_has_not_run_has_no_status_and_what_is_damaged_is_said(tmp_path: Path) -> None:
    assert read_status(str(tmp_path), "shop") is None
    (tmp_path / "shop.status.json").write_text("{")
    with pytest.raises(PipelineError, match=r"cannot read .*shop\.status\.json"):
        read_status(str(tmp_path), "shop")
