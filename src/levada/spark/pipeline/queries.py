"""A write as a running query of Spark."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from levada.spark.checkpoints import quick_files
from levada.spark.pipeline.sinks import BatchSink, Control, MicroBatch
from levada.spark.pipeline.writes import TopicSink, Write
from levada.spark.rows import Rows, write, write_dead_letters
from levada.spark.rows.registry import schema_source, subject_of
from levada.spark.rows.starting import query_of, written_once
from levada.spark.rows.writing import outgoing

AVAILABLE_NOW = "available-now"


def start(planned: Write, bootstrap: str, checkpoint: str, trigger: str | None, control: Control) -> StreamingQuery:
    """`trigger` is a time such as `10 seconds`, or `available-now`; without one a batch follows the other."""
    mode = output_mode(planned)
    if isinstance(planned.sink, TopicSink):
        return _start_topic(planned, planned.sink, mode, bootstrap, checkpoint, trigger)
    deliver = delivery_of(planned, planned.sink, bootstrap, control)
    writer = planned.frame.writeStream.foreachBatch(deliver).queryName(planned.name)
    writer = writer.outputMode(mode).option("checkpointLocation", checkpoint)
    if trigger == AVAILABLE_NOW:
        writer = writer.trigger(availableNow=True)
    elif trigger is not None:
        writer = writer.trigger(processingTime=trigger)
    with quick_files(planned.frame.sparkSession, checkpoint):
        return writer.start()


def _start_topic(
    planned: Write, sink: TopicSink, mode: str, bootstrap: str, checkpoint: str, trigger: str | None
) -> StreamingQuery:
    common: dict[str, Any] = {
        "checkpoint": checkpoint,
        "trigger": trigger,
        "name": planned.name,
        "bootstrap": bootstrap,
    }
    if sink.is_dead_letters:
        assert isinstance(planned.rows, Rows)
        query = write_dead_letters(planned.rows, **common)
    else:
        common |= {"output_mode": mode, "delivery": sink.delivery, **sink.options}
        query = write(planned.rows, sink.topic, **_shape(sink), **_registered(sink), **common)
    assert query is not None, "a stream has a query"
    return query


def records_of(planned: Write, sink: TopicSink) -> DataFrame:
    """What would be written, to see whether it can be."""
    if sink.is_dead_letters:
        assert isinstance(planned.rows, Rows)
        return planned.rows.rejected
    source = schema_source(**_registered(sink), options={})
    if source is not None and source.subject is None and sink.topic is not None:
        source = replace(source, subject=subject_of(sink.topic))
    return outgoing(planned.rows, sink.topic, **_shape(sink), source=source, is_only_checked=True)


def sink_options(sink: TopicSink, bootstrap: str) -> dict[str, str]:
    """As the data source gets them."""
    delivery = {"delivery": sink.delivery} if sink.delivery else {}
    return {**delivery, **sink.options, "kafka.bootstrap.servers": bootstrap}


def _shape(sink: TopicSink) -> dict[str, Any]:
    """What records look like."""
    return {"key": sink.key, "format": sink.format, "schema": sink.schema}


def _registered(sink: TopicSink) -> dict[str, Any]:
    assert not isinstance(sink.registry, bool | str), "the context has chosen one"
    return {"registry": sink.registry, "subject": sink.subject, "message": sink.message}


def delivery_of(planned: Write, sink: BatchSink, bootstrap: str, control: Control) -> Callable[[DataFrame, int], None]:
    """What Spark calls with each micro-batch: good rows to the sink, rejected ones to their topic."""
    dead_letters = planned.rows.dead_letters if isinstance(planned.rows, Rows) else None

    def deliver(frame: DataFrame, number: int) -> None:
        batch = MicroBatch(query_of(frame), number)
        if dead_letters is None:
            sink.write(frame, batch, control)
            return
        # Once from the source, for both halves, and for each time that the sink has to try.
        kept = frame.persist()
        try:
            rows = Rows(kept, dead_letters)
            if not rows.rejected.isEmpty():
                _write_letters(rows, batch, bootstrap)
            sink.write(rows.good, batch, control)
        finally:
            kept.unpersist()

    return deliver


def _write_letters(rows: Rows, batch: MicroBatch, bootstrap: str) -> None:
    once = written_once(f"{batch.query}-dead-letters", batch.number, {"kafka.bootstrap.servers": bootstrap})
    options: dict[str, Any] = {**once}
    write_dead_letters(rows, bootstrap=bootstrap, **options)


def output_mode(planned: Write) -> str:
    """The one that was asked for, or the first that Spark can do for these rows; PipelineError if it cannot."""
    wanted = [planned.mode] if planned.mode is not None else list(planned.sink.modes)
    refusal: Exception | None = None
    for mode in wanted:
        try:
            refuse_unsupported(planned.frame, mode)
            return mode
        except Exception as error:
            refusal = refusal or error
    assert refusal is not None
    raise refusal


def refuse_unsupported(frame: DataFrame, mode: str) -> None:
    """What Spark itself checks when a query starts."""
    spark: Any = frame.sparkSession
    modes = spark._jvm.org.apache.spark.sql.streaming.OutputMode
    checker = spark._jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    plan: Any = frame
    checker.checkForStreaming(plan._jdf.queryExecution().analyzed(), getattr(modes, mode.capitalize())())
