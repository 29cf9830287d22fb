"""All that can be known to be wrong with a pipeline before it runs."""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict

from levada import Admin
from levada.client.admin import ConfigResource
from levada.client.errors import KafkaError
from levada.spark.pipeline.context import Context
from levada.spark.pipeline.failure import cause_of
from levada.spark.pipeline.problems import Problem, one_line, unknown
from levada.spark.pipeline.queries import output_mode, records_of, sink_options
from levada.spark.pipeline.sinks import BatchSink
from levada.spark.pipeline.sinks.parquet import Place
from levada.spark.pipeline.writes import TopicSink, Write, checkpoint_of
from levada.spark.rows import Rows
from levada.spark.sink.writers import TopicStreamWriter

ANSWER_MS: Final = 10_000
AUTO_CREATE: Final = "auto.create.topics.enable"


@dataclass(slots=True)
class Findings:
    """Problems keep a pipeline from running; notes do not."""

    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)


def check(context: Context, writes: Iterable[Write], checkpoint: str | None) -> Findings:
    """Topics, what Spark can do, sinks and the checkpoint."""
    findings = Findings()
    planned = list(writes)
    _check_topics(context, planned, findings)
    if checkpoint is not None:
        findings.problems += _checkpoint_problems(checkpoint)
    for write in planned:
        try:
            _check_write(write, context.bootstrap, checkpoint, findings)
        except Exception as error:
            findings.problems.append(Problem(write.where, cause_of(error)))
    return findings


def query_id(spark: SparkSession, checkpoint: str) -> str | None:
    """The id of the query whose checkpoint this is, if there is one."""
    found = Place(checkpoint).read("metadata")
    if found is None:
        return None
    identity: str = json.loads(found)["id"]
    return identity


def _check_write(write: Write, bootstrap: str, checkpoint: str | None, findings: Findings) -> None:
    if isinstance(write.sink, TopicSink):
        records = records_of(write, write.sink)
        if not write.sink.is_dead_letters:
            output_mode(write)
            TopicStreamWriter(CaseInsensitiveDict(sink_options(write.sink, bootstrap)), records.schema)
        return
    output_mode(write)
    assert isinstance(write.sink, BatchSink)
    frame = write.rows.good if isinstance(write.rows, Rows) else write.rows
    known = query_id(frame.sparkSession, checkpoint_of(checkpoint, write.name)) if checkpoint is not None else None
    findings.problems += [Problem(write.where, text) for text in write.sink.problems(frame.schema, known)]


def _check_topics(context: Context, writes: list[Write], findings: Findings) -> None:
    written: dict[str, str] = {}
    for topic, where in _written_topics(writes):
        written.setdefault(topic, where)
    if not context.topics and not written:
        return
    try:
        with Admin(context.bootstrap) as admin:
            there = set(admin.list_topics(timeout_ms=ANSWER_MS))
            are_made = _makes_topics(admin)
    except (KafkaError, OSError, TimeoutError) as error:
        findings.problems.append(Problem("bootstrap", f"cannot reach {context.bootstrap}: {one_line(str(error))}"))
        return
    for topic, where in context.topics.items():
        if topic not in there:
            findings.problems.append(Problem(where, unknown("topic", topic, there)))
    for topic, where in written.items():
        if topic in there:
            continue
        if are_made:
            findings.notes.append(Problem(where, f"topic {topic!r} is not there yet; the broker will make it"))
        else:
            findings.problems.append(
                Problem(where, f"there is no topic {topic!r}, and the broker makes none by itself")
            )


def _written_topics(writes: list[Write]) -> Iterable[tuple[str, str]]:
    for write in writes:
        if isinstance(write.rows, Rows):
            yield write.rows.dead_letters, write.where
        if isinstance(write.sink, TopicSink) and write.sink.topic is not None:
            yield write.sink.topic, write.where


def _makes_topics(admin: Admin) -> bool:
    """Whether brokers make topics that are written to; they do if we may not ask."""
    broker = admin.describe_cluster(timeout_ms=ANSWER_MS).brokers[0]
    resource = ConfigResource.broker(broker.broker_id)
    entries: Any = admin.describe_configs([resource], keys=[AUTO_CREATE], timeout_ms=ANSWER_MS)
    entry = entries[resource].get(AUTO_CREATE) if resource not in entries.errors else None
    return entry is None or entry.value != "false"


def _checkpoint_problems(checkpoint: str) -> list[Problem]:
    if "://" in checkpoint:
        return []
    nearest = Path(checkpoint).absolute()
    while not nearest.exists():
        nearest = nearest.parent
    if not nearest.is_dir():
        return [Problem("checkpoint", f"{nearest} is not a directory")]
    if not os.access(nearest, os.W_OK | os.X_OK):
        return [Problem("checkpoint", f"{nearest} cannot be written to")]
    return []
