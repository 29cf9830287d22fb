"""`levada serve --daemon` and `levada stop`, as an operator types them."""

import io
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from levada import Admin
from levada.cli.kit import processes
from levada.cli.kit.processes import is_running, process_of
from levada.cli.main import main


def levada(*arguments: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "levada", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, cwd=cwd)


@pytest.fixture
def data_directory(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "data"
    try:
        yield directory
    finally:
        pid = process_of(str(directory))
        if pid is not None:
            os.kill(pid, signal.SIGKILL)


def start(directory: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return levada("serve", "--daemon", "--data-dir", str(directory), "--listen", "localhost:0", *arguments)


def test_a_daemon_serves_until_it_is_stopped(data_directory: Path) -> None:
    started = start(data_directory)
    assert started.returncode == 0, started.stderr
    pid = process_of(str(data_directory))
    assert started.stdout.endswith(f" (process {pid}, log {data_directory / 'levada.log'})\n")
    address = started.stdout.split(" listening on ")[1].split()[0]
    with Admin(address) as admin:
        assert len(admin.describe_cluster().brokers) == 1
    stopped = levada("stop", "--data-dir", str(data_directory))
    assert (stopped.returncode, stopped.stdout) == (0, f"levada: stopped process {pid}\n")
    assert not is_running(str(data_directory))
    assert (data_directory / ".kafka_cleanshutdown").exists()
    assert not (data_directory / "levada.pid").exists()
    assert "stopping" in (data_directory / "levada.log").read_text()


def test_stop_without_a_broker_is_one_line(data_directory: Path, tmp_path: Path) -> None:
    stopped = levada("stop", "--data-dir", str(data_directory))
    assert stopped.returncode == 1
    assert stopped.stderr == (
        f"levada: no broker runs in {data_directory}: name its --data-dir, or stop all of yours with --all\n"
    )
    assert levada("kafka-server-stop.sh", cwd=tmp_path).returncode == 1


def test_a_killed_daemon_is_not_mistaken_for_a_running_one(data_directory: Path) -> None:
    assert start(data_directory).returncode == 0
    pid = process_of(str(data_directory))
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    while is_running(str(data_directory)):
        pass
    assert (data_directory / "levada.pid").exists()
    assert process_of(str(data_directory)) is None
    assert levada("stop", "--data-dir", str(data_directory)).returncode == 1
    assert start(data_directory).returncode == 0
    assert levada("stop", "--data-dir", str(data_directory)).returncode == 0


def test_a_second_daemon_and_a_taken_port_are_refused(data_directory: Path, tmp_path: Path) -> None:
    assert start(data_directory).returncode == 0
    second = start(data_directory)
    assert second.returncode == 1
    assert "already; stop it with" in second.stderr
    with socket.create_server(("localhost", 0)) as taken:
        port = taken.getsockname()[1]
        other = levada("serve", "--daemon", "--data-dir", str(tmp_path / "other"), "--listen", f"localhost:{port}")
    assert other.returncode == 1
    assert other.stderr.startswith("levada: the broker did not start: ")
    assert other.stderr.count("\n") == 1
    assert levada("stop", "--data-dir", str(data_directory)).returncode == 0


def test_kafkas_start_script_is_understood(data_directory: Path, tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={data_directory}\nlisteners=PLAINTEXT://localhost:0\nbroker.id=7\n")
    override = ("--override", "num.partitions=5")
    started = levada("kafka-server-start.sh", "-daemon", str(properties), *override)
    assert started.returncode == 0, started.stderr
    assert "broker 7 listening on" in started.stdout
    assert levada("stop", "--data-dir", str(data_directory)).returncode == 0


def test_a_log_file_of_ones_own(data_directory: Path, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "broker.log"
    assert start(data_directory, "--log-file", str(log)).returncode == 0
    assert "listening on" in log.read_text()
    assert levada("stop", "--data-dir", str(data_directory)).returncode == 0
    assert "started node_id=1" in log.read_text()


def test_a_daemon_goes_on_in_a_new_log_file_after_a_rotation(data_directory: Path) -> None:
    assert start(data_directory).returncode == 0
    log, rotated = data_directory / "levada.log", data_directory / "levada.log.1"
    log.rename(rotated)
    stopped = levada("stop", "--data-dir", str(data_directory))
    assert stopped.returncode == 0, stopped.stderr
    assert "stopping" in log.read_text()
    assert "stopping" not in rotated.read_text()


def test_ps_shows_what_runs_and_stop_all_asks_before_it_stops_that(data_directory: Path) -> None:
    started = start(data_directory)
    address = started.stdout.split(" listening on ")[1].split()[0]
    pid = process_of(str(data_directory))
    shown = levada("ps")
    assert shown.returncode == 0
    [line] = [line for line in shown.stdout.splitlines() if str(data_directory) in line]
    assert line.split("\t")[:3] == [str(pid), f"broker 1 listening on {address}", str(data_directory)]
    unasked = levada("stop", "--all")
    assert unasked.returncode == 1
    assert line.rpartition("\t")[0] in unasked.stderr
    assert unasked.stderr.splitlines()[-1].endswith("give --yes as well")
    assert process_of(str(data_directory)) == pid


def test_stop_all_stops_what_was_shown_when_it_is_meant(monkeypatch: pytest.MonkeyPatch, data_directory: Path) -> None:
    """In this process, so that brokers of other tests are not among all."""
    assert start(data_directory).returncode == 0
    pid = process_of(str(data_directory))
    ours = [broker for broker in processes.all_brokers() if broker.pid == pid]
    monkeypatch.setattr("levada.cli.stop.all_brokers", lambda: ours)
    monkeypatch.setattr("levada.cli.stop.is_terminal", lambda _: True)
    for answer, code in (("n\n", 1), ("\n", 1), ("y\n", 0)):
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        assert main(["stop", "--all"]) == code
        assert is_running(str(data_directory)) is bool(code)


def test_a_broker_is_stopped_by_any_of_its_directories(data_directory: Path, tmp_path: Path) -> None:
    second = tmp_path / "second"
    directories = f"{data_directory},{second}"
    started = levada("serve", "--daemon", "--data-dir", directories, "--listen", "localhost:0")
    assert started.returncode == 0, started.stderr
    assert levada("stop", "--data-dir", str(second)).returncode == 0
    assert not is_running(str(data_directory))
