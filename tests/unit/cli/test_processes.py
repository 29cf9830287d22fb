"""Which processes of this machine are brokers that this user may stop."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from levada.cli.kit import processes
from levada.cli.main import main


@pytest.fixture
def pid() -> Iterator[int]:
    """A process that looks as a broker's does."""
    code = "import sys, time; print(flush=True); time.sleep(60)"
    command = [sys.executable, "-c", code, "levada", "serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def listed() -> list[int]:
    return [broker.pid for broker in processes.all_brokers()]


def test_a_broker_of_this_user_is_listed(pid: int) -> None:
    assert pid in listed()


def test_a_broker_of_another_user_is_neither_listed_nor_stopped(
    pid: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped: list[int] = []
    monkeypatch.setattr("levada.cli.stop.stop_process", lambda pid, _timeout: stopped.append(pid))
    another = max(os.getuid(), 60_000) + 1
    monkeypatch.setattr(os, "getuid", lambda: another)
    assert listed() == []
    assert main(["stop", "--all", "--yes"]) == 1
    assert capsys.readouterr().err == "levada: no broker of yours runs on this machine\n"
    assert stopped == []
