"""`levada zookeeper` as a process: it says when it answers, ends when told to, and leaves nothing behind."""

import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from tests.zookeepers import ZooKeeperServer, free_ports


def command(directory: Path, port: int) -> list[str]:
    return [sys.executable, "-m", "levada", "zookeeper", "--data-dir", str(directory), "--port", str(port)]


def test_it_says_when_it_answers_and_ends_when_told_to(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    for number in (signal.SIGTERM, signal.SIGINT):
        with (
            subprocess.Popen(command(tmp_path / "data", port), stdout=subprocess.PIPE, text=True) as process,
            ExitStack() as endings,
        ):
            assert process.stdout is not None
            endings.callback(process.kill)
            assert process.stdout.readline() == f"levada: zookeeper 0 listening on localhost:{port}\n"
            second = subprocess.run(command(tmp_path / "data", port), capture_output=True, text=True, timeout=30)
            assert second.returncode == 1
            assert second.stderr == f"levada: a ZooKeeper server runs in {tmp_path / 'data'} already\n"
            process.send_signal(number)
            assert process.wait(20) == 0
            assert process.stdout.read() == ""


def test_a_server_whose_tool_was_killed_goes_too(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    server = ZooKeeperServer(tmp_path / "data", port)
    with (
        subprocess.Popen(command(tmp_path / "data", port), stdout=subprocess.PIPE, text=True) as process,
        ExitStack() as endings,
    ):
        endings.callback(process.kill)
        assert process.stdout is not None
        assert "listening on" in process.stdout.readline()
        assert server.mode() == "standalone"
    deadline = time.monotonic() + 20
    while server.mode():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_server_that_ends_by_itself_is_told_of(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / "version-2").write_text("in the way of its data")
    run = subprocess.run(command(directory, port), capture_output=True, text=True, timeout=30)
    assert run.returncode == 1
    assert run.stdout == ""
    assert run.stderr.splitlines()[-1].startswith("levada: ZooKeeper has ended with code ")
    assert run.stderr.splitlines()[-1].endswith(f"its log is {directory / 'zookeeper.log'}")
