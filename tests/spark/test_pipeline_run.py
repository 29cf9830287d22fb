"""Pipelines that run: what they write, how they stop, and what they say when they fail."""

import json
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from levada import Admin, Consumer, Producer
from levada.client.types import TopicPartition
from levada.spark.pipeline import PipelineOptions, status_of_file
from levada.spark.pipeline.command import plan_of, run
from levada.spark.pipeline.definition import load
from levada.spark.pipeline.queries import start
from levada.spark.pipeline.running import Running, StopSignals, stop_after_batch
from levada.spark.pipeline.sinks import BatchSink, Control, MicroBatch
from levada.spark.pipeline.writes import Write
from tests.spark.databases import wait_until

GOOD = 300
BROKEN = [b"not json", b'{"id": null, "user": "u", "amount": 1}', b'{"id": 999, "user": "u", "amount": -1}']


@pytest.fixture
def run_once(spark: SparkSession, bootstrap: str, tmp_path: Path) -> Callable[[dict[str, Any]], int]:
    """Run a pipeline until all that is there is done; gives the exit code."""

    def run_it(content: dict[str, Any]) -> int:
        file = tmp_path / "p.yaml"
        file.write_text(yaml.safe_dump(content, sort_keys=False))
        options = options_of(tmp_path, bootstrap)
        definition, problems = load(file)
        assert problems == []
        plan = plan_of(spark, options, definition)
        assert plan.findings.problems == []
        return run(plan, options)

    return run_it


def options_of(directory: Path, bootstrap: str) -> PipelineOptions:
    file, progress = directory / "p.yaml", directory / "progress"
    progress.mkdir(exist_ok=True)
    return PipelineOptions(file, bootstrap=bootstrap, checkpoint=str(progress), is_available_now=True, interval_s=1)


def committed(bootstrap: str, topic: str) -> dict[str, int]:
    """The groups that have read a topic with one partition, and how far."""
    partition = TopicPartition(topic, 0)
    with Admin(bootstrap) as admin:
        offsets = admin.list_group_offsets([group.group_id for group in admin.list_groups()]).done
    found = {group: each.get(partition) for group, each in offsets.items()}
    return {group: one.offset for group, one in found.items() if one is not None}


def send(bootstrap: str, topic: str, values: list[bytes]) -> None:
    with Producer(bootstrap) as producer:
        producer.send_many(topic, values).result()


def records(bootstrap: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of a topic with one partition, as a reader of committed records sees them."""
    found: list[tuple[bytes | None, bytes | None]] = []
    partition = TopicPartition(topic, 0)
    with Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        while consumer.position(partition) < end:
            found += [(record.key, record.value) for record in consumer.poll(1.0)]
    return found


def test_every_sink_has_each_row_once_and_a_second_run_adds_nothing(
    run_once: Callable[[dict[str, Any]], int],
    spark: SparkSession,
    bootstrap: str,
    new_topic: Callable[..., str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    orders, totals, dead = new_topic(), new_topic(), new_topic()
    content = {
        "sources": {
            "orders": {"topic": orders, "schema": "id long, user string, amount long", "dead_letters": dead,
                       "options": {"maxOffsetsPerTrigger": 200}},
        },
        "steps": {
            "valid": {"from": "orders", "quality": [{"not_null": "id"}, {"in_range": {"column": "amount", "low": 0}}]},
            "totals": {"sql": "SELECT user, sum(amount) AS total FROM valid GROUP BY user"},
        },
        "sinks": {
            "kept": {"from": "valid", "database": f"sqlite:///{tmp_path}/a.db", "table": "orders", "key": "id",
                     "create": True},
            "totals": {"from": "totals", "topic": totals, "key": "user"},
            "files": {"from": "valid", "parquet": str(tmp_path / "files")},
        },
    }  # fmt: skip
    values = [json.dumps({"id": n, "user": f"u{n % 3}", "amount": n}).encode() for n in range(GOOD)]
    send(bootstrap, orders, values + BROKEN)
    assert run_once(content) == 0
    assert f"levada: done; kept {GOOD + 3} rows in 2 batches" in capsys.readouterr().out
    assert committed(bootstrap, orders) == dict.fromkeys(("p.kept", "p.totals", "p.files"), GOOD + 3)
    assert status_of_file(options_of(tmp_path, bootstrap)) == 0
    head, _, *queries = capsys.readouterr().out.splitlines()
    assert head.startswith("pipeline p: done, process ")
    assert [line.split()[:5] for line in queries] == [
        [name, "done", "1", line.split()[3], "0"] for name, line in zip(("kept", "totals", "files"), queries)
    ]
    assert run_once(content) == 0

    connection = sqlite3.connect(tmp_path / "a.db")
    assert connection.execute("SELECT count(*), sum(amount) FROM orders").fetchone() == (GOOD, sum(range(GOOD)))
    connection.close()
    files = spark.read.parquet(str(tmp_path / "files"))
    assert sorted(row.id for row in files.collect()) == list(range(GOOD))
    assert Counter(value for _, value in records(bootstrap, dead)) == Counter(BROKEN)
    written = [json.loads(value or b"") for _, value in records(bootstrap, totals)]
    latest = {row["user"]: row["total"] for row in written}
    assert latest == {f"u{user}": sum(range(user, GOOD, 3)) for user in range(3)}
    assert len(written) <= 6, "two batches, three users"


def test_a_query_that_fails_ends_the_run_with_one_line(
    run_once: Callable[[dict[str, Any]], int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "a.log").write_text("twice\ntwice\n")
    sink = {"database": f"sqlite:///{tmp_path}/a.db", "table": "lines", "key": "value", "create": True}
    assert run_once({"sources": {"lines": {"files": str(logs)}}, "sinks": {"kept": sink}}) == 1
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("levada: ")]
    assert said == ["levada: kept: two rows for one key (value) in a batch: name the column that orders them (order)"]
    assert status_of_file(options_of(tmp_path, "localhost:1")) == 1
    head, _, query = capsys.readouterr().out.splitlines()
    assert ": failed, process " in head
    assert query.endswith("two rows for one key (value) in a batch: name the column that orders them (order)")


@dataclass(frozen=True, slots=True)
class SlowSink(BatchSink):
    """Takes its time for a batch, and tells when it has begun and ended."""

    begun: threading.Event = field(default_factory=threading.Event)
    ended: list[int] = field(default_factory=list)

    def problems(self, schema: StructType, query: str | None) -> list[str]:
        return []

    def write(self, frame: DataFrame, batch: MicroBatch, control: Control) -> None:
        self.begun.set()
        time.sleep(1.5)
        self.ended.append(batch.number)


def test_a_pipeline_that_is_told_to_stop_ends_its_batch_first(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    sink = SlowSink()
    progress = tmp_path / "progress"
    query = start(Write("slow", "sinks.slow", rows, sink), "localhost:1", str(progress), None, Control())
    try:
        assert sink.begun.wait(60)
        wait_until(lambda: sink.ended)
        sink.begun.clear()
        assert sink.begun.wait(60)
        before = len(sink.ended)
        stop_after_batch(Running({"slow": query}), StopSignals(Control()))
        assert len(sink.ended) > before
        committed = {int(file.name) for file in (progress / "commits").iterdir() if file.name.isdigit()}
        assert set(sink.ended[: before + 1]) <= committed
        assert not query.isActive
    finally:
        query.stop()
