"""Kafka's scripts as `levada aliases` writes them, in lines as people have them."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from levada.cli.kit.processes import is_running, process_of

Script = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    directory = tmp_path / "bin"
    command = [sys.executable, "-m", "levada", "aliases", str(directory)]
    written = subprocess.run(command, capture_output=True, text=True, check=True)
    assert written.stdout.startswith("levada: wrote ")
    return directory


@pytest.fixture
def run(scripts: Path, tmp_path: Path) -> Script:
    def call(name: str, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [name, *arguments],
            cwd=tmp_path,
            env={**os.environ, "PATH": f"{scripts}:{os.environ['PATH']}", **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return call


@pytest.fixture
def data_directory(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "far" / "away"
    try:
        yield directory
    finally:
        pid = process_of(str(directory))
        if pid is not None:
            os.kill(pid, signal.SIGKILL)


def test_a_session_with_kafkas_scripts_runs_unchanged(run: Script, data_directory: Path, tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(f"broker.id=3\nlog.dirs={data_directory}\nlisteners=PLAINTEXT://localhost:0\n")
    started = run("kafka-server-start.sh", "-daemon", str(properties))
    assert started.returncode == 0, started.stderr
    server = ("--bootstrap-server", started.stdout.split(" listening on ")[1].split()[0])
    created = run("kafka-topics.sh", "--create", "--topic", "orders", *server)
    assert created.stdout == "Created topic orders.\n"
    elected = run("kafka-preferred-replica-election.sh", *server)
    assert elected.returncode == 0, elected.stderr
    offsets = run("kafka-run-class.sh", "kafka.tools.GetOffsetShell", *server, "--topic", "orders")
    assert offsets.stdout == "orders:0:0\n"
    log = data_directory / "orders-0" / f"{0:020d}.log"
    dumped = run("kafka-run-class.sh", "org.apache.kafka.tools.DumpLogSegments", "--files", str(log))
    assert dumped.stdout.startswith(f"Dumping {log}")
    stopped = run("kafka-server-stop.sh")
    assert stopped.returncode == 0, stopped.stderr
    assert not is_running(str(data_directory))
    again = run("kafka-server-stop.sh")
    assert again.returncode == 1
    assert "no broker runs that was started by the scripts in" in again.stderr


def test_a_jmx_port_is_where_metrics_are(run: Script, data_directory: Path, tmp_path: Path) -> None:
    import socket

    with socket.create_server(("localhost", 0)) as free:
        port = str(free.getsockname()[1])
    properties = tmp_path / "server.properties"
    properties.write_text(f"broker.id=3\nlog.dirs={data_directory}\nlisteners=PLAINTEXT://localhost:0\n")
    started = run("kafka-server-start.sh", "-daemon", str(properties), JMX_PORT=port)
    assert started.returncode == 0, started.stderr
    assert f"JMX_PORT={port}: metrics are served over HTTP there" in started.stderr
    jmx = ("--jmx-url", f"service:jmx:rmi:///jndi/rmi://:{port}/jmxrmi", "--one-time", "true")
    bean = "kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec"
    shown = run(
        "kafka-run-class.sh", "kafka.tools.JmxTool", *jmx, "--object-name", bean, "--attributes", "Count",
        "--date-format", "YYYY-MM-dd HH:mm:ss,SSS",
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines()[0] == f'"time","{bean}:Count"'
    assert run("kafka-server-stop.sh").returncode == 0


def test_scripts_of_others_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "kafka-topics.sh").write_text("#!/bin/sh\necho Apache's\n")
    command = [sys.executable, "-m", "levada", "aliases", str(tmp_path)]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "was not written by levada" in refused.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kafka-topics.sh"]
