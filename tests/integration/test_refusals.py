"""Brokers that must not run beside each other: the second one says why in one line, and the first goes on."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers import BrokerProcess


def serve(data_directory: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "levada", "serve", "--data-dir", str(data_directory), "--listen", "localhost:0"]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=20, check=False)


def refusal(result: "subprocess.CompletedProcess[str]") -> str:
    """The one line for people; what else there is was logged before."""
    assert result.returncode == 1
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    *logged, line = result.stderr.splitlines()
    assert not [each for each in logged if " INFO " not in each]
    assert line.startswith("levada: ")
    return line.removeprefix("levada: ")


@pytest.fixture
def first(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path / "first").start()
    try:
        yield broker
        assert broker.stop() == 0
    finally:
        broker.kill()


@pytest.fixture
def coordinator(first: BrokerProcess) -> Path:
    return first.data_directory / "coordinator"


def test_two_brokers_cannot_share_a_data_directory(first: BrokerProcess, tmp_path: Path) -> None:
    directory = first.data_directory
    expected = (
        f"{directory} is in use by another broker; stop it with `levada stop --data-dir {directory}`,"
        " or choose another --data-dir"
    )
    assert refusal(serve(directory)) == expected
    assert refusal(serve(directory, "--coordinator", f"local:{tmp_path / 'other'}", "--node-id", "2")) == expected


def test_two_brokers_cannot_have_one_id(coordinator: Path, tmp_path: Path) -> None:
    second = serve(tmp_path / "second", "--coordinator", f"local:{coordinator}")
    assert refusal(second) == (f"a broker with id 1 is running on {coordinator}; stop it or choose another --node-id")
    assert not list((tmp_path / "second").glob("*-[0-9]*"))


def test_a_killed_broker_is_in_nobodys_way(first: BrokerProcess) -> None:
    first.kill()
    first.start()


def test_a_directory_of_another_cluster_is_refused(first: BrokerProcess, coordinator: Path, tmp_path: Path) -> None:
    other = BrokerProcess(tmp_path / "other").start()
    assert other.stop() == 0
    first.stop()
    result = serve(other.data_directory, "--coordinator", f"local:{coordinator}")
    line = refusal(result)
    assert line.startswith(f"{other.data_directory} belongs to cluster ")
    assert line.endswith("use the coordinator it was made with, or another data directory")
