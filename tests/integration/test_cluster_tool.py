"""`levada cluster --brokers N`: real processes that are started, told of and stopped together."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from levada import Admin, NewTopic
from tests.tools.running import run_ours

WAIT_SECONDS = 40


class Starter:
    """The tool, and what it has printed."""

    def __init__(self, directory: Path, *flags: str) -> None:
        command = [sys.executable, "-m", "levada", "cluster", "--base-port", "0", "--data-dir", str(directory), *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines: list[str] = []

    def until(self, words: str) -> str:
        """Read on to the line that has these words."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.strip())
            if words in line:
                return line.strip()
        raise AssertionError(f"{words!r} is not among {self.lines}; {self.end()}")

    @property
    def ports(self) -> list[int]:
        return [int(found[1]) for line in self.lines if (found := re.search(r"listening on localhost:(\d+)", line))]

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=WAIT_SECONDS)
        return self.process.returncode, out, err


@contextmanager
def started(directory: Path, *flags: str) -> Iterator[Starter]:
    starter = Starter(directory, *flags)
    try:
        yield starter
    finally:
        if starter.process.poll() is None:
            starter.process.terminate()
            starter.end()


def test_brokers_are_one_cluster_and_stop_in_order_on_ctrl_c(tmp_path: Path) -> None:
    with started(tmp_path / "data", "--brokers", "2", "--dev") as starter:
        starter.until("levada: cluster ready")
        assert [line.split(" listening")[0] for line in starter.lines[:2]] == ["levada: broker 1", "levada: broker 2"]
        first, second = starter.ports
        with Admin(f"localhost:{second}") as admin:
            admin.create_topics([NewTopic("t", 4)]).raise_any()
            assert {broker.port for broker in admin.describe_cluster().brokers} == {first, second}
        status = run_ours(["cluster-status", "--bootstrap-server", f"localhost:{first}"])
        assert (status.code, status.err) == (0, "")
        heading, *brokers = status.out.splitlines()
        assert re.fullmatch(
            r"cluster \S+: controller [12] epoch \d+, metadata offset \d+, 1 topics, 4 partitions", heading
        )
        assert brokers == [f"  broker 1 localhost:{first}: alive", f"  broker 2 localhost:{second}: alive"]
        starter.process.send_signal(signal.SIGINT)
        code, out, err = starter.end()
        assert (code, err) == (0, "")
        assert out.splitlines() == ["levada: broker 2 stopped", "levada: broker 1 stopped"]


def test_a_broker_that_dies_is_told_of_and_the_others_go_on(tmp_path: Path) -> None:
    flags = ("--brokers", "2", "--set", "broker.session.timeout.ms=1500", "--set", "broker.heartbeat.interval.ms=200")
    with started(tmp_path / "data", *flags) as starter:
        starter.until("levada: cluster ready")
        first, _ = starter.ports
        with Admin(f"localhost:{first}") as admin:
            admin.create_topics([NewTopic("t", 2)]).raise_any()
            [victim] = (tmp_path / "data" / "broker2" / "levada.pid").read_text().split()[:1]
            os.kill(int(victim), signal.SIGKILL)
            while len(admin.describe_cluster().brokers) > 1:
                continue
        status = run_ours(["cluster-status", "--json", "--bootstrap-server", f"localhost:{first}"])
        assert status.code == 1
        assert '"leaderless": [\n    "t-' in status.out
        starter.process.send_signal(signal.SIGTERM)
        code, _, err = starter.end()
        assert code == 1
        assert "levada: broker 2 has ended" in err


def test_a_broker_that_cannot_start_ends_all(tmp_path: Path) -> None:
    with started(tmp_path / "data", "--brokers", "2", "--set", "num.partitions=0") as starter:
        code, out, err = starter.end()
    assert code == 1
    assert err.startswith("levada: broker 1 did not start: ")
    assert "num.partitions" in err
    assert "cluster ready" not in out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "say how many brokers to start, with --brokers N, or name a command"),
        (["--brokers", "0"], "--brokers is a number from 1 to 100, not 0"),
        (["--brokers", "2", "cluster-id"], "cluster-id takes no flags of brokers that are to be started"),
        (["--brokers", "2", "--zookeeper", "2181", "--coordinator", "local:x"], "give one of them"),
    ],
)
def test_flags_that_make_no_sense_are_refused(flags: list[str], words: str) -> None:
    ran = run_ours(["cluster", *flags])
    assert ran.code == 2
    assert words in ran.err
