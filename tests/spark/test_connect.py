"""Programs of Spark Connect, with one server for all."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from levada import Producer
from levada.spark.sessions import prepare_environment
from tests.spark.test_cluster import HOST, deployed, free_port, values_of, wait_for

NewTopic = Callable[..., str]
SERVER_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
SETTINGS = {
    "spark.connect.grpc.binding.address": HOST,
    "spark.driver.bindAddress": HOST,
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Spark Connect server as the wheel has it."""
    prepare_environment()
    directory = tmp_path_factory.mktemp("connect")
    port = free_port()
    given = {
        **SETTINGS,
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }
    settings = [word for name, value in given.items() for word in ("--conf", f"{name}={value}")]
    submit = (
        "org.apache.spark.deploy.SparkSubmit",
        "--master",
        "local[2]",
        "--driver-memory",
        "1g",
        *settings,
        "--class",
        SERVER_CLASS,
    )
    with deployed(directory / "server.log", *submit, "spark-internal", memory="1g"):
        wait_for(directory / "server.log", "Spark Connect server started at")
        yield f"sc://{HOST}:{port}"


def send(bootstrap: str, topic: str, rows: list[tuple[str, float]]) -> None:
    with Producer(bootstrap, value_serializer="json") as producer:
        for key, amount in rows:
            producer.send(topic, {"id": key, "amount": amount})


def ids_of(bootstrap: str, topic: str) -> list[str]:
    return sorted(json.loads(value)["id"] for value in values_of(bootstrap, topic))


@pytest.mark.timeout(240)
def test_a_program_reads_and_writes_over_connect_each_row_once(
    server: str, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topics = {name: new_topic() for name in ("source", "batch", "stream", "dead", "totals")}
    send(bootstrap, topics["source"], [("a", 1), ("b", 2), ("c", 30)])
    job = {**topics, "server": server, "bootstrap": bootstrap, "directory": str(tmp_path)}
    command = [sys.executable, "-m", "tests.spark.driver_connect", json.dumps(job)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["read"] == ["a", "b", "c"]
    assert report["counts"] == {"rows": 3, "in_range(amount)": 1}
    assert report["refused"].startswith("write: output_mode='update' cannot be exactly once over Spark Connect")
    assert ids_of(bootstrap, topics["batch"]) == ["b", "c"]
    assert ids_of(bootstrap, topics["stream"]) == ["a", "b"]
    assert ids_of(bootstrap, topics["dead"]) == ["c"]
    assert ids_of(bootstrap, topics["totals"]) == ["a", "b", "c"]
