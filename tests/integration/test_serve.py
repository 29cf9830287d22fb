"""`levada serve` as a person meets it."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.brokers import BrokerProcess


def serve(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "levada", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_cleanly_when_asked(tmp_path: Path, number: signal.Signals) -> None:
    broker = BrokerProcess(tmp_path / "data").start()
    assert broker._end(number) == 0
    assert "Traceback" not in broker.log


def test_a_second_broker_on_one_data_directory_is_refused(own_broker: BrokerProcess) -> None:
    second = serve("serve", "--data-dir", str(own_broker.data_directory), "--listen", "localhost:0")
    assert second.returncode == 1
    assert second.stderr.splitlines()[-1] == (
        f"levada: {own_broker.data_directory} is in use by another broker; stop it or choose another --data-dir"
    )


def test_a_port_in_use_is_one_line(own_broker: BrokerProcess, tmp_path: Path) -> None:
    second = serve("serve", "--data-dir", str(tmp_path / "other"), "--listen", f"localhost:{own_broker.port}")
    assert second.returncode == 1
    assert second.stderr.splitlines()[-1].startswith("levada: ")
    assert "Traceback" not in second.stderr


def test_the_directory_of_another_node_is_refused(own_broker: BrokerProcess) -> None:
    own_broker.stop()
    other = serve("serve", "--data-dir", str(own_broker.data_directory), "--listen", "localhost:0", "--node-id", "2")
    assert other.returncode == 1
    assert "belongs to node 1" in other.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "num.partition=3"], "the nearest known one is 'num.partitions'"),
        (["--set", "num.partitions=0"], "num.partitions must be at least 1"),
        (["--set", "num.partitions"], "--set wants KEY=VALUE"),
        (["--listen", "nowhere"], "--listen must look like HOST:PORT"),
        (["--config", "missing.properties"], "cannot read --config missing.properties"),
        (["--coordinator", "zookeeper://localhost:2181"], "not served yet"),
        (["--node-id", "x"], "node.id must be of type int"),
    ],
)
def test_a_bad_setting_is_one_line_and_exit_code_1(tmp_path: Path, arguments: list[str], message: str) -> None:
    result = serve("serve", "--data-dir", str(tmp_path / "data"), "--listen", "localhost:0", *arguments)
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("levada: ")
    assert message in result.stderr


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["serve", "--nonsense"]])
def test_wrong_usage_is_exit_code_2(arguments: list[str]) -> None:
    assert serve(*arguments).returncode == 2


def test_a_properties_file_is_read_and_set_wins_over_it(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(
        f"broker.id=1\nlog.dirs={tmp_path / 'data'}\nnum.partitions=2\nnum.network.threads=3\n"
        "listeners=PLAINTEXT://localhost:0\n"
    )
    command = [sys.executable, "-m", "levada", "serve", "--config", str(properties), "--set", "num.partitions=4"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("levada: broker 1 listening on localhost:")
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "key=num.network.threads has no effect here" in log
    assert (tmp_path / "data" / "meta.properties").exists()


def test_importing_a_node_loads_nothing_heavy() -> None:
    code = "import sys, levada.node; print([m for m in ('pyarrow', 'numpy', 'kazoo', 'pyspark') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20)
    assert result.stdout.strip() == "[]"
