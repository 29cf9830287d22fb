"""`levada serve` as a person meets it."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from levada import Admin, ConfigResource, Consumer, Producer
from tests.brokers import BrokerProcess


def serve(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "levada", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_it_stops_cleanly_when_asked(tmp_path: Path, number: signal.Signals) -> None:
    # Tests that are run under nohup hand down that SIGHUP is to be ignored.
    before = signal.signal(number, signal.SIG_DFL)
    try:
        broker = BrokerProcess(tmp_path / "data").start()
    finally:
        signal.signal(number, before)
    assert broker._end(number) == 0
    assert "Traceback" not in broker.log


def test_a_terminal_that_closes_is_nothing_to_a_broker_under_nohup(tmp_path: Path) -> None:
    command = f"trap '' HUP; exec {sys.executable} -m levada serve --data-dir {tmp_path / 'data'} --listen localhost:0"
    process = subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    port = int(process.stdout.readline().rpartition(":")[2])
    process.send_signal(signal.SIGHUP)
    with Admin(f"localhost:{port}") as admin:
        assert len(admin.describe_cluster().brokers) == 1
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 0


def test_a_second_broker_on_one_data_directory_is_refused(own_broker: BrokerProcess) -> None:
    second = serve("serve", "--data-dir", str(own_broker.data_directory), "--listen", "localhost:0")
    assert second.returncode == 1
    assert second.stderr.splitlines()[-1] == (
        f"levada: {own_broker.data_directory} is in use by another broker; stop it with"
        f" `levada stop --data-dir {own_broker.data_directory}`, or choose another --data-dir"
    )


def test_a_port_in_use_is_one_line(own_broker: BrokerProcess, tmp_path: Path) -> None:
    second = serve("serve", "--data-dir", str(tmp_path / "other"), "--listen", f"localhost:{own_broker.port}")
    assert second.returncode == 1
    assert second.stderr.splitlines()[-1] == (
        f"levada: localhost:{own_broker.port} is in use: another program listens there; stop it, or give another port"
        " in listeners (--listen)"
    )
    assert "Traceback" not in second.stderr


def test_a_port_for_metrics_that_is_in_use_is_named(own_broker: BrokerProcess, tmp_path: Path) -> None:
    metrics = ("--set", f"levada.metrics.port={own_broker.port}")
    second = serve("serve", "--data-dir", str(tmp_path / "other"), "--listen", "localhost:0", *metrics)
    assert second.returncode == 1
    assert f"localhost:{own_broker.port} is in use" in second.stderr
    assert "in levada.metrics.port" in second.stderr


def test_a_broker_tells_of_its_process_and_its_loop(tmp_path: Path) -> None:
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    broker = BrokerProcess(tmp_path / "data", f"levada.metrics.port={port}").start()
    try:
        with urlopen(f"http://localhost:{port}/jmx", timeout=20) as page:
            beans = json.loads(page.read())
        assert (
            0 <= beans["kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent"]["MeanRate"] <= 1
        )
        assert beans["java.lang:type=OperatingSystem"]["ResidentMemorySize"] > 10_000_000
        with urlopen(f"http://localhost:{port}/metrics", timeout=20) as page:
            text = page.read().decode()
        assert "java_lang_OperatingSystem_ProcessCpuLoad" in text
        assert "levada_EventLoop_DelayMs_count" in text
    finally:
        broker.stop()


@pytest.mark.parametrize(
    ("listen", "message"),
    [
        ("no-such-host.invalid:0", "there is no host 'no-such-host.invalid'"),
        ("198.51.100.1:0", "198.51.100.1 is no address of this machine"),
    ],
)
def test_an_address_to_listen_on_that_cannot_be_is_explained(tmp_path: Path, listen: str, message: str) -> None:
    result = serve("serve", "--data-dir", str(tmp_path / "data"), "--listen", listen)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith(f"levada: {message}")


@pytest.mark.parametrize("path", ["file", "file/below"])
def test_a_data_directory_that_is_a_file_is_explained(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_text("")
    result = serve("serve", "--data-dir", str(tmp_path / path), "--listen", "localhost:0")
    assert result.returncode == 1
    assert f"levada: {tmp_path / path} is not a directory" in result.stderr


def test_the_directory_of_another_node_is_refused(own_broker: BrokerProcess) -> None:
    own_broker.stop()
    other = serve("serve", "--data-dir", str(own_broker.data_directory), "--listen", "localhost:0", "--node-id", "2")
    assert other.returncode == 1
    assert "belongs to node 1" in other.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "num.partition=3"], "did you mean num.partitions?"),
        (["--set", "num.partitions=0"], "num.partitions must be at least 1"),
        (["--set", "num.partitions"], "--set wants KEY=VALUE"),
        (["--listen", "nowhere"], "--listen must look like HOST:PORT"),
        (
            ["--listen", "localhost:99999"],
            "--listen: the port of 'localhost:99999' is out of range",
        ),
        (["--config", "missing.properties"], "cannot read --config missing.properties"),
        (["--coordinator", "zookeeper://localhost:x"], "zookeeper://localhost:x"),
        (["--coordinator", "consul:x"], "it is local, local:DIR, or zookeeper://HOST:PORT"),
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
    assert "no effect here: keys=num.network.threads\n" in log
    assert (tmp_path / "data" / "meta.properties").exists()


def test_a_broker_for_development_serves_the_first_group_at_once_and_its_settings_can_be_overridden(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-m", "levada", "serve", "--dev", "--data-dir", str(tmp_path), "--listen", "localhost:0"]
    process = subprocess.Popen([*command, "--set", "log.segment.bytes=1048576"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        bootstrap = f"localhost:{process.stdout.readline().rpartition(':')[2].strip()}"
        with Producer(bootstrap) as producer:
            producer.send("first", b"value").result()
        with Consumer(bootstrap, group_id="g", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["first"])
            assert next(iter(consumer)).value == b"value"
        read = ["--from-beginning", "--max-messages", "1", "--timeout-ms", "15000"]
        printed = serve("console-consumer", "--bootstrap-server", bootstrap, "--topic", "first", *read)
        assert (printed.returncode, printed.stdout) == (0, "value\n"), printed.stderr
        with Admin(bootstrap) as admin:
            [found] = admin.describe_configs([ConfigResource.broker(1)]).values()
            topics = admin.describe_topics(["__consumer_offsets"])
        assert found["log.segment.bytes"].value == "1048576"
        assert found["group.initial.rebalance.delay.ms"].value == "0"
        assert len(topics["__consumer_offsets"].partitions) == 1
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)


KRAFT = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:0,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:0,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
log.message.timestamp.type=logAppendTime
"""


def test_the_properties_of_a_kraft_node_start_a_broker_and_one_line_says_what_has_no_meaning(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(f"{KRAFT}log.dirs={tmp_path / 'data'}\n")
    command = [sys.executable, "-m", "levada", "serve", str(properties)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    port = int(process.stdout.readline().rpartition(":")[2])
    with Admin(f"localhost:{port}") as admin:
        resource = ConfigResource.broker(1)
        [found] = admin.describe_configs([resource]).values()
        assert found["log.message.timestamp.type"].value == "LogAppendTime"
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=20)
    assert process.returncode == 0
    [line] = [line for line in log.splitlines() if "no effect here" in line]
    assert "controller.listener.names" not in line
    for key in ("controller.quorum.bootstrap.servers", "num.io.threads"):
        assert key in line


def test_importing_a_node_loads_nothing_heavy() -> None:
    code = "import sys, levada.node; print([m for m in ('pyarrow', 'numpy', 'kazoo', 'pyspark') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20)
    assert result.stdout.strip() == "[]"
