"""A Spark standalone cluster, one master and two workers, that runs a pipeline."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from levada import Admin, Consumer, Producer
from levada.client.admin import NewTopic
from levada.client.types import TopicPartition
from levada.spark.sessions import prepare_environment
from tests.brokers import BrokerProcess

SPARK_HOME = Path(pyspark.__path__[0])
HOST = "127.0.0.1"
WORKERS = 2
ROWS = 2_000
START_SECONDS = 60.0

PIPELINE = """
sources:
  words: {topic: words, format: string}
steps:
  loud: {sql: "SELECT upper(value) AS value, _source.partition AS read_from FROM words"}
sinks:
  loud: {from: loud, topic: loud}
"""


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The address of a master that has two workers."""
    prepare_environment()
    port = free_port()
    address = f"spark://{HOST}:{port}"
    master_class, worker_class = (f"org.apache.spark.deploy.{name}" for name in ("master.Master", "worker.Worker"))
    with deployed(tmp_path / "master.log", master_class, "--host", HOST, "--port", str(port), "--webui-port", "0"):
        wait_for(tmp_path / "master.log", "I have been elected leader")
        first, second = (
            deployed(
                tmp_path / f"worker-{number}.log",
                worker_class,
                *("--host", HOST, "--webui-port", "0", "--cores", "1", "--memory", "1g"),
                *("--work-dir", str(tmp_path / f"work-{number}"), address),
            )
            for number in range(WORKERS)
        )
        with first, second:
            for number in range(WORKERS):
                wait_for(tmp_path / f"worker-{number}.log", "Successfully registered with master")
            yield address


@pytest.mark.skipif(os.environ.get("LEVADA_SOAK") != "1", reason="takes a minute: LEVADA_SOAK=1")
@pytest.mark.timeout(240)
def test_a_pipeline_runs_on_two_workers(own_broker: BrokerProcess, master: str, tmp_path: Path) -> None:
    with Admin(own_broker.bootstrap) as admin, Producer(own_broker.bootstrap) as producer:
        admin.create_topics([NewTopic("words", WORKERS), NewTopic("loud", 1)]).raise_any()
        for partition in range(WORKERS):
            producer.send_many("words", [b"word %d" % number for number in range(ROWS)], partition=partition)
    file = tmp_path / "loud.yaml"
    file.write_text(PIPELINE)
    command = [sys.executable, "-m", "levada", "pipeline", "run", str(file), "--master", master, "--available-now"]
    command += ["--bootstrap-server", own_broker.bootstrap, "--checkpoint", str(tmp_path / "checkpoint")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    found = values_of(own_broker.bootstrap, "loud")
    assert len(found) == WORKERS * ROWS
    assert sum(b"WORD 7" in value for value in found) >= WORKERS
    for number in range(WORKERS):
        assert "Asked to launch executor" in (tmp_path / f"worker-{number}.log").read_text()


def values_of(bootstrap: str, topic: str) -> list[bytes]:
    found: list[bytes] = []
    with Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        partitions = [TopicPartition(topic, each.index) for each in consumer.partitions_for(topic)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            found += [record.value or b"" for record in consumer.poll(1.0)]
    return found


@contextmanager
def deployed(log: Path, *arguments: str, memory: str = "256m") -> Iterator[None]:
    """A process of Spark's own."""
    environment = {**os.environ, "SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": HOST, "SPARK_DAEMON_MEMORY": memory}
    with log.open("w") as output:
        process = subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-class"), *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)


def wait_for(log: Path, text: str) -> None:
    give_up_at = time.monotonic() + START_SECONDS
    while text not in log.read_text():
        assert time.monotonic() < give_up_at, f"{text!r} was never said:\n{log.read_text()}"
        time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        port: int = taken.getsockname()[1]
        return port
