"""Spark Connect, and Spark's declarative pipelines, which use it: with one server for both."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from levada import Producer
from levada.spark.sessions import prepare_environment
from tests.spark.test_cluster import HOST, SPARK_HOME, deployed, free_port, values_of, wait_for

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


SPEC = """
name: orders
storage: file://{directory}/storage
libraries: [{{glob: {{include: definitions/**}}}}]
configuration: {{spark.levada.bootstrap: "{bootstrap}"}}
"""

DEFINITIONS = """
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from levada.spark import read, in_range, quality

servers = {{"kafka.bootstrap.servers": "{bootstrap}"}}

# Outside, as Spark does not let such a function ask it for columns.
orders = read("{source}", "id string, amount double", startingOffsets="earliest")
orders = quality(orders, [in_range("amount", 0, 10)])
checked = orders.good.select("id", "amount")
letters = orders.rejected.select("_source.key", "_source.value")

@dp.table
def {table}() -> DataFrame:
    return checked

@dp.materialized_view
def {view}() -> DataFrame:
    spark = SparkSession.active()
    return spark.read.format("levada").options(**servers).option("subscribe", "{source}").load().selectExpr("offset")

dp.create_sink(name="written", format="levada", options={{**servers, "topic": "{sink}"}})

@dp.append_flow(target="written")
def writing() -> DataFrame:
    return SparkSession.active().readStream.table("{table}").selectExpr("id AS key", "to_json(struct(*)) AS value")

dp.create_sink(name="dead", format="levada", options={{**servers, "topic": "{dead}"}})

@dp.append_flow(target="dead")
def burying() -> DataFrame:
    return letters
"""


@pytest.mark.timeout(240)
def test_a_declarative_pipeline_has_topics_as_sources_and_sinks(
    server: str, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    source, sink, dead = new_topic(), new_topic(), new_topic()
    names = {"table": source.replace("-", "_"), "view": sink.replace("-", "_")}
    names |= {"source": source, "sink": sink, "dead": dead}
    (tmp_path / "definitions").mkdir()
    (tmp_path / "definitions" / "orders.py").write_text(DEFINITIONS.format(bootstrap=bootstrap, **names))
    (tmp_path / "spark-pipeline.yml").write_text(SPEC.format(directory=tmp_path, bootstrap=bootstrap))
    expected: list[str] = []
    for key in ("a", "b"):
        send(bootstrap, source, [(key, 1), (f"{key}-too-much", 30)])
        run_declared(server, tmp_path / "spark-pipeline.yml")
        expected.append(key)
        assert ids_of(bootstrap, sink) == expected, "each row once, over both runs"
        assert ids_of(bootstrap, dead) == [f"{each}-too-much" for each in expected]


def run_declared(server: str, spec: Path) -> None:
    command = [str(SPARK_HOME / "bin" / "spark-pipelines"), "--remote", server, "run", "--spec", str(spec)]
    environment = {**os.environ, "SPARK_HOME": str(SPARK_HOME)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment, cwd=spec.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Run is COMPLETED" in done.stdout + done.stderr
