"""Records on their way: a batch that is written at once, or a query that is started."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from levada.spark.checkpoints import quick_files
from levada.spark.rows.durations import milliseconds
from levada.spark.rows.problems import RowsError, one_of
from levada.spark.rows.reading import as_option
from levada.spark.sessions import bootstrap_of, is_connected
from levada.spark.sink.brokers import abilities
from levada.spark.sink.options import read_options

APPEND = "append"
OUTPUT_MODES = (APPEND, "update", "complete")
AVAILABLE_NOW = "available-now"
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
SET_BY_WRITE = {
    "topic": "name it as an argument",
    "checkpointlocation": "use checkpoint=...",
    "kafka.bootstrap.servers": "use bootstrap=...",
}
QUERY_ID = "sql.streaming.queryId"
"""Where Spark keeps the id of the query for its jobs."""


@dataclass(frozen=True, slots=True)
class Query:
    """How records are written."""

    output_mode: str
    checkpoint: str | None
    trigger: str | float | None
    name: str | None
    delivery: str | None
    bootstrap: str | None
    options: Mapping[str, Any]


def start(records: DataFrame, query: Query) -> StreamingQuery | None:
    """Begin a stream, or write a batch."""
    settings = _settings(records, query)
    if not records.isStreaming:
        for name in ("checkpoint", "trigger", "name"):
            if getattr(query, name) is not None:
                raise RowsError(f"write: {name} is for streams, and these rows were read as a batch: leave it out")
        _write(records, settings)
        return None
    if query.checkpoint is None:
        raise RowsError("write: a stream needs a directory for its progress: checkpoint='...', one for each query")
    one_of("the output_mode of write", query.output_mode, OUTPUT_MODES)
    if query.output_mode == APPEND:
        writer = records.writeStream.format("levada").options(**settings)
    else:
        _refuse_connected(records, query)
        writer = records.writeStream.foreachBatch(_one_by_one(settings, query.delivery))
    writer = writer.outputMode(query.output_mode).option("checkpointLocation", query.checkpoint)
    if query.name is not None:
        writer = writer.queryName(query.name)
    with quick_files(records.sparkSession, query.checkpoint):
        return _triggered(writer, query.trigger).start()


def _refuse_connected(records: DataFrame, query: Query) -> None:
    """Spark Connect does not tell a function the query that its batch is of, by which the batch would be known."""
    if is_connected(records.sparkSession) and query.delivery in (None, EXACTLY_ONCE):
        raise RowsError(
            f"write: output_mode={query.output_mode!r} cannot be exactly once over Spark Connect: "
            "pass delivery='at-least-once', or run it without Connect"
        )


def _settings(records: DataFrame, query: Query) -> dict[str, str]:
    for name in query.options:
        if name.lower() in SET_BY_WRITE:
            raise RowsError(f"write: option {name!r} is set already; {SET_BY_WRITE[name.lower()]}")
    settings = {name: as_option(value) for name, value in query.options.items() if value is not None}
    settings["kafka.bootstrap.servers"] = bootstrap_of(records.sparkSession, query.bootstrap)
    if query.delivery is not None:
        settings["delivery"] = query.delivery
    return settings


def _write(records: DataFrame, settings: Mapping[str, str]) -> None:
    records.write.format("levada").mode("append").options(**settings).save()


def _one_by_one(settings: Mapping[str, str], delivery: str | None) -> Callable[[DataFrame, int], None]:
    """Spark gives appended rows alone to a sink in Python; as batches, one by one, it gives all.

    The number of the batch goes with it, so that one that comes again after a crash is not written again.
    """

    def write_batch(records: DataFrame, number: int) -> None:
        once = (
            {} if delivery not in (None, EXACTLY_ONCE) else written_once(query_of(records), number, settings, delivery)
        )
        _write(records, {**settings, **once})

    return write_batch


def query_of(batch: DataFrame) -> str:
    """The id of the query that a micro-batch is of."""
    query_id = batch.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    assert query_id is not None, "Spark says which query a batch is of"
    return query_id


def written_once(name: str, number: int, settings: Mapping[str, str], delivery: str | None = None) -> dict[str, str]:
    """Options for a numbered write, which is left out when it comes again.

    Brokers that cannot do that say so where exactly once was asked for; else they get it at least once.
    """
    if (
        delivery is None
        and not abilities(read_options(CaseInsensitiveDict(settings), is_stream=False)).can_commit_groups
    ):
        return {"delivery": AT_LEAST_ONCE}
    return {"txnAppId": name, "txnVersion": str(number)}


def _triggered(writer: DataStreamWriter, trigger: str | float | None) -> DataStreamWriter:
    if trigger is None:
        return writer
    if trigger == AVAILABLE_NOW:
        return writer.trigger(availableNow=True)
    length_ms = milliseconds(trigger, f"the trigger of write, unless it is {AVAILABLE_NOW!r},")
    return writer.trigger(processingTime=f"{length_ms} milliseconds")
