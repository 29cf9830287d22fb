"""The Python of Spark's workers finds the installed PySpark, and all else that its path has."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from levada.spark import worker_python as launching
from levada.spark.worker_python import is_launcher, worker_python

SHOW = (
    "import sys; from importlib.util import find_spec; "
    "print(sys.prefix, find_spec('pyspark').origin, *sys.argv[1:], *sys.path, sep='\\n')"
)


def said_by(python: str, *arguments: str, path: str) -> list[str]:
    done = subprocess.run(
        [python, "-c", SHOW, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    return done.stdout.splitlines()


def test_sparks_zip_is_left_out_and_the_rest_of_the_path_is_kept() -> None:
    package = Path(pyspark.__file__).parent
    archive = f"{package}/python/lib/pyspark.zip"
    assert Path(archive).exists()
    path = f"{archive}:/a place/of jobs:{package}/python/lib/py4j-src.zip:/with/*/star"
    prefix, found, *rest = said_by(worker_python(), "an argument", "*", path=path)
    assert prefix == sys.prefix
    assert found == pyspark.__file__
    assert rest[:2] == ["an argument", "*"]
    assert "/a place/of jobs" in rest
    assert "/with/*/star" in rest
    assert not [place for place in rest if place.endswith(".zip") and str(package) in place]
    assert said_by(sys.executable, path=path)[1].startswith(archive), "or else there is nothing to leave out"


def test_an_empty_path_stays_empty() -> None:
    assert said_by(worker_python(), path="")[1] == pyspark.__file__


def test_a_spark_of_its_own_and_another_python_keep_their_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = f"{Path(pyspark.__file__).parent}/python/lib/pyspark.zip"
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    assert said_by(worker_python(str(link)), path=path)[1].startswith(path)
    monkeypatch.setattr(pyspark, "__file__", str(tmp_path / "spark" / "python" / "pyspark" / "__init__.py"))
    assert said_by(worker_python(), path=path)[1].startswith(path)


def test_a_launcher_needs_none() -> None:
    assert worker_python(worker_python()) == worker_python()
    assert is_launcher(worker_python())
    assert not is_launcher(sys.executable)


def test_sparks_daemon_is_ours() -> None:
    """It is asked for a port, and ends when its input does."""
    done = subprocess.run(
        [worker_python(), "-X", "importtime", "-c", "pass"], capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
    launched = subprocess.run(
        ["sh", "-x", worker_python(), "-m", "pyspark.daemon", "pyspark.worker"],
        input="",
        capture_output=True,
        check=False,
        text=True,
        errors="replace",
        timeout=30,
    )
    assert "-m levada.spark.worker_daemon pyspark.worker" in launched.stderr
    assert launched.stdout != "", "the port that it listens at"
    assert "Traceback" not in launched.stderr


def test_where_nothing_can_be_written_workers_run_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise PermissionError("read-only")

    monkeypatch.setattr(launching, "writable_place", nowhere)
    assert worker_python() == sys.executable


def test_where_nothing_can_be_executed_workers_run_this_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As on a file system that is mounted with noexec: whatever its mode says, access(2) says no."""
    monkeypatch.setattr(launching, "writable_place", lambda: tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.X_OK)
    assert worker_python() == sys.executable


def test_a_launcher_is_written_once_and_for_each_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(launching, "writable_place", lambda: tmp_path)
    first = Path(worker_python())
    stamp = first.stat().st_mtime_ns
    assert Path(worker_python()).stat().st_mtime_ns == stamp
    monkeypatch.setattr(sys, "executable", "/other/python")
    assert Path(worker_python()) != first
    assert len(list(tmp_path.iterdir())) == 2
