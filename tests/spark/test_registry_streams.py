"""Topics framed with a registry's schemas: streams that go on through its outages, and pipelines from files."""

import io
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest
import yaml
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from levada import Producer
from levada.spark.pipeline import PipelineOptions
from levada.spark.pipeline.command import plan_of, run
from levada.spark.pipeline.definition import load
from levada.spark.rows import read, write
from levada.spark.rows.registry.framing import prefix_of
from tests.protobufs import SHOP, protobuf
from tests.registries import RegistryServer, registry_server
from tests.spark.databases import wait_until
from tests.spark.sink_checks import committed_records

RUN_SECONDS = 100
LIMIT_SECONDS = 25.0
"""Far above the seconds that a check without Spark takes."""
PASSWORD = "hush-4711"


def order(*more: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}, *more]}


def optional(name: str) -> dict[str, Any]:
    return {"name": name, "type": ["null", "string"], "default": None}


def framed(schema_id: int, schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return prefix_of(schema_id) + stream.getvalue()


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with registry_server() as started:
        yield started


def send(bootstrap: str, topic: str, *values: bytes) -> None:
    with Producer(bootstrap) as producer:
        producer.send_many(topic, list(values)).result()


def values_in(bootstrap: str, topic: str) -> list[bytes | None]:
    return [record.value for record in committed_records(bootstrap, topic)]


def started(query: StreamingQuery | None) -> StreamingQuery:
    assert query is not None
    return query


def test_a_stream_waits_for_a_registry_that_is_away_and_loses_nothing(
    spark: SparkSession, server: RegistryServer, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, out, dead = new_topic(), new_topic(), new_topic()
    first = server.add(f"{topic}-value", order())
    send(bootstrap, topic, framed(first, order(), {"id": "a"}), b"broken")
    rows = read(topic, format="avro", registry=server.url, dead_letters=dead, bootstrap=bootstrap,
                startingOffsets="earliest")  # fmt: skip
    query = started(
        write(rows, out, format="avro", registry=server.url, schema=order(), checkpoint=str(tmp_path / "c"),
              bootstrap=bootstrap)
    )  # fmt: skip
    try:
        wait_until(lambda: len(values_in(bootstrap, out)) == 1)
        second = server.add(f"{topic}-value", order(optional("tag")))
        server.status = 503
        send(bootstrap, topic, framed(second, order(optional("tag")), {"id": "b", "tag": "x"}))
        asked = len(server.asked)
        wait_until(lambda: len(server.asked) >= asked + 3)
        server.stop()
        time.sleep(1)
        assert query.isActive
        assert len(values_in(bootstrap, out)) == 1
        server.status = None
        server.start()
        wait_until(lambda: len(values_in(bootstrap, out)) == 2)
    finally:
        query.stop()
    written = server.store.subjects[f"{out}-value"]
    assert values_in(bootstrap, out) == [framed(written[0], order(), {"id": each}) for each in "ab"]
    assert values_in(bootstrap, dead) == [b"broken"]


def test_the_wait_and_a_login_that_is_refused_end_the_query_in_one_line(
    spark: SparkSession, server: RegistryServer, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, out = new_topic(), new_topic()
    schema_id = server.add(f"{topic}-value", order())
    server.login = ("ann", PASSWORD)
    send(bootstrap, topic, framed(schema_id, order(), {"id": "a"}))
    for status, said in ((500, "was away for 1 s (registry_wait)"), (401, "refuses the login (401)")):
        server.status = None
        rows = read(
            topic,
            format="avro",
            registry=server.url_with(f"ann:{PASSWORD}"),
            registry_wait="1s",
            bootstrap=bootstrap,
            startingOffsets="earliest",
        )
        server.status = status
        query = started(write(rows, out, checkpoint=str(tmp_path / str(status)), bootstrap=bootstrap))
        try:
            with pytest.raises(Exception, match=r"away|refuses") as raised:
                query.awaitTermination(RUN_SECONDS)
        finally:
            query.stop()
        assert said in str(raised.value)
        assert PASSWORD not in str(raised.value)
    assert values_in(bootstrap, out) == []


def pipeline_of(topic: str, out: str, dead: str, url: str, **more: Any) -> dict[str, Any]:
    return {
        "registry": url,
        **more,
        "sources": {
            "orders": {"topic": topic, "format": "avro", "registry": True, "dead_letters": dead},
        },
        "steps": {"tagged": {"sql": "SELECT id, 7 AS count FROM orders"}},
        "sinks": {
            "json": {"from": "tagged", "topic": out, "format": "json", "registry": True,
                     "schema": json.dumps({"properties": {"id": {"type": "string"}, "count": {"type": "integer"}}})},
            "shop": {"from": "tagged", "topic": out, "format": "protobuf", "registry": True, "subject": "shop",
                     "message": "shop.Order"},
        },
    }  # fmt: skip


def test_a_pipelines_file_names_its_registry_once(
    spark: SparkSession,
    server: RegistryServer,
    bootstrap: str,
    new_topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic, out, dead = new_topic(), new_topic(), new_topic()
    server.login = ("ann", PASSWORD)
    monkeypatch.setenv("REGISTRY_PASSWORD", PASSWORD)
    schema_id = server.add(f"{topic}-value", order())
    shop_id = server.add("shop", protobuf(SHOP), "PROTOBUF")
    send(bootstrap, topic, framed(schema_id, order(), {"id": "a"}), b"broken")
    file = tmp_path / "p.yaml"
    login = {"registry_user": "ann", "registry_password": "${REGISTRY_PASSWORD}"}
    file.write_text(yaml.safe_dump(pipeline_of(topic, out, dead, server.url, **login), sort_keys=False))
    (tmp_path / "progress").mkdir()
    options = PipelineOptions(file, bootstrap=bootstrap, checkpoint=str(tmp_path / "progress"), is_available_now=True)
    definition, problems = load(file)
    assert problems == []
    before = len(server.store.schemas)
    plan = plan_of(spark, options, definition)
    assert plan.findings.problems == []
    # To look at a pipeline registers nothing.
    assert len(server.store.schemas) == before
    assert run(plan, options) == 0
    json_id = server.store.subjects[f"{out}-value"][0]
    assert sorted(values_in(bootstrap, out), key=str) == sorted(
        [prefix_of(json_id) + b'{"id":"a","count":7}', prefix_of(shop_id) + b"\x00\x0a\x01a\x18\x07"], key=str
    )
    assert values_in(bootstrap, dead) == [b"broken"]
    printed = capsys.readouterr()
    shown = printed.out + printed.err + repr(plan) + repr(definition)
    assert PASSWORD not in shown + "".join(path.read_text(errors="replace") for path in tmp_path.rglob("*status*"))


def test_a_pipeline_says_that_its_registry_is_away_and_goes_on_when_it_is_back(
    spark: SparkSession,
    server: RegistryServer,
    bootstrap: str,
    new_topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("levada.spark.pipeline.registries.LOOK_S", 0.2)
    topic, out, dead = new_topic(), new_topic(), new_topic()
    schema_id = server.add(f"{topic}-value", order())
    send(bootstrap, topic, framed(schema_id, order(), {"id": "a"}))
    file = tmp_path / "p.yaml"
    content = pipeline_of(topic, out, dead, server.url)
    del content["sinks"]["shop"]
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    (tmp_path / "progress").mkdir()
    options = PipelineOptions(
        file, bootstrap=bootstrap, checkpoint=str(tmp_path / "progress"), is_available_now=True, interval_s=0.5
    )
    plan = plan_of(spark, options, load(file)[0])
    assert plan.findings.problems == []
    read_schemas = server.asked.count(f"GET /schemas/ids/{schema_id}")

    def fail_and_recover() -> None:
        """The registry goes away when the query's first values ask for their schema."""
        wait_until(lambda: any(asked.startswith("POST") and asked.endswith("/versions") for asked in server.asked))
        server.status = 503
        wait_until(lambda: server.asked.count(f"GET /schemas/ids/{schema_id}") >= read_schemas + 5)
        time.sleep(2)
        server.status = None

    helper = threading.Thread(target=fail_and_recover)
    helper.start()
    try:
        assert run(plan, options) == 0
    finally:
        helper.join()
    printed = capsys.readouterr().out
    assert f"values may wait for the schema registry: {server.url} answers 503" in printed
    assert len(values_in(bootstrap, out)) == 1


def checked(tmp_path: Path, bootstrap: str, content: dict[str, Any]) -> "subprocess.CompletedProcess[str]":
    """`levada pipeline check` in a process of its own, which would not find a Java if it looked for one."""
    file = tmp_path / "p.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False))
    environment = {**os.environ, "JAVA_HOME": "/no/such/java", "PATH": "/no/such/path"}
    began = time.monotonic()
    ran = subprocess.run(
        [sys.executable, "-m", "levada", "pipeline", "check", str(file), "--bootstrap-server", bootstrap],
        capture_output=True, text=True, timeout=60, check=False, env=environment,
    )  # fmt: skip
    assert time.monotonic() - began < LIMIT_SECONDS, ran
    assert (ran.returncode, ran.stdout) == (1, "")
    assert PASSWORD not in ran.stderr
    return ran


def test_what_is_wrong_with_a_registry_is_a_line_each_before_spark_is_started(
    server: RegistryServer, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, out, dead = new_topic(), new_topic(), new_topic()
    content = pipeline_of(topic, out, dead, server.url)
    server.add("shop", order())
    server.add(f"{out}-value", {"properties": {"id": {"type": "integer"}}}, "JSON")
    ran = checked(tmp_path, bootstrap, content)
    assert ran.stderr == (
        f"levada: sources.orders: {server.url} has no subject '{topic}-value': give schema=..., or name one that it "
        "has, subject=...\n"
        f"levada: sinks.json: the schema does not fit those of the subject '{out}-value' at {server.url} (the type of "
        "field 'id' has changed): change it so that it does, write to another subject=..., or let its operator change "
        "the subject's compatibility\n"
        "levada: sinks.shop: the subject 'shop' is Avro, and Protobuf is asked for\n"
    )
    server.add(f"{topic}-value", {**order(), "fields": [{"name": "x", "type": ["int", "string"]}]})
    del content["sinks"]["shop"], content["sinks"]["json"]["registry"]
    said = checked(tmp_path, bootstrap, content).stderr
    assert said.startswith("levada: sources.orders: an Avro union may be of null and one other type")
    assert said.count("\n") == 1


def test_a_registry_that_does_not_answer_is_one_line_before_spark_is_started(
    server: RegistryServer, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    url = server.url_with(f"ann:{PASSWORD}")
    content = pipeline_of(new_topic(), new_topic(), new_topic(), url)
    server.slow_s = 30
    assert (
        checked(tmp_path, bootstrap, content).stderr == f"levada: registry: {server.url} gives no answer within 5 s\n"
    )
    server.stop()
    said = checked(tmp_path, bootstrap, content).stderr
    assert said == f"levada: registry: {server.url} cannot be reached: Connection refused\n"
    content["registry"] = f"http://ann:{PASSWORD}@h:port"
    assert checked(tmp_path, bootstrap, content).stderr.startswith(
        "levada: registry: the registry's address is not a URL"
    )
    del content["registry"]
    lines = checked(tmp_path, bootstrap, content).stderr.splitlines()
    assert lines == [
        f"levada: {path}: registry: true is the file's own, which has none: name it at the top, registry: URL"
        for path in ("sources.orders", "sinks.json", "sinks.shop")
    ]
