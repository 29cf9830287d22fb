"""All that can be known to be wrong with a pipeline before it runs."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict

from levada.spark.pipeline.context import Context
from levada.spark.pipeline.failure import cause_of
from levada.spark.pipeline.problems import Problem
from levada.spark.pipeline.queries import output_mode, records_of, sink_options
from levada.spark.pipeline.sinks import BatchSink
from levada.spark.pipeline.sinks.parquet import HadoopDirectory
from levada.spark.pipeline.topics import Findings, check_topics
from levada.spark.pipeline.writes import TopicSink, Write, checkpoint_of
from levada.spark.rows import Rows
from levada.spark.sink.writers import TopicStreamWriter


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
    found = HadoopDirectory(checkpoint).read("metadata")
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
    check_topics(context.bootstrap, context.topics, written, findings)


def _written_topics(writes: list[Write]) -> Iterable[tuple[str, str]]:
    for write in writes:
        if isinstance(write.rows, Rows):
            yield write.rows.dead_letters, write.where
        if isinstance(write.sink, TopicSink) and write.sink.topic is not None:
            yield write.sink.topic, write.where


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
