"""The sink as Spark sees it: a writer for batches and one for streams.

Spark plans each micro-batch in a process of its own, which only has to make the writer: so clients are loaded by tasks
and commits.
"""

import logging
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from levada.spark.options import OptionError
from levada.spark.sink.columns import check_columns
from levada.spark.sink.names import BatchMarker, WriteName
from levada.spark.sink.options import Delivery, SinkOptions, read_options
from levada.spark.sink.report import TaskReport
from levada.spark.worker_memory import keep_loaded

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger("levada.spark")

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
RUN_ID = "spark.jobGroup.id"
"""Spark keeps the id of a query's run there."""

Messages = list[WriterCommitMessage | None]


class TopicWriter(DataSourceArrowWriter):
    """Of one batch: all of its rows become visible at once, or none."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise OptionError("a topic cannot be overwritten, only added to: use mode('append')")
        self._options = read_options(options, is_stream=False)
        check_columns(schema, self._options.topic)
        version = self._options.version
        if version is None:
            self._name, self._marker = WriteName.of_query(str(uuid.uuid4())), None
        else:
            self._name = WriteName.of_application(version.app_id, self._options.topic)
            self._marker = BatchMarker(version.number, is_exact=False)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        from levada.spark.sink.task import WriteAttempt, write_rows

        keep_loaded()
        context = _task_context()
        number = None if self._marker is None else self._marker.number
        task = WriteAttempt(self._name, number, context.partitionId(), context.attemptNumber())
        return write_rows(self._options, task, iterator)

    def commit(self, messages: Messages) -> None:
        keep_loaded()
        reports = _reports(messages)
        _warn_of_less(self._options, self._name, _delivery(reports))
        if _delivery(reports) is Delivery.EXACTLY_ONCE:
            from levada.spark.sink.commit import BatchCommit

            BatchCommit(self._options, self._name, self._marker, reports).run()

    def abort(self, messages: Messages) -> None:
        if self._options.delivery is not Delivery.AT_LEAST_ONCE:
            from levada.spark.sink.commit import abort

            abort(self._options, self._name, _reports(messages))


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """Of a streaming query: each micro-batch becomes visible at once, exactly once, or not at all.

    Spark makes one for its tasks and one for each commit, in processes of their own; so nothing is kept here.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = read_options(options, is_stream=True)
        check_columns(schema, self._options.topic)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        from levada.spark.sink.task import WriteAttempt, write_rows

        keep_loaded()
        context = _task_context()
        query_id, batch_id = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        assert query_id is not None, "Spark tells tasks of which query they are"
        assert batch_id is not None, "Spark tells tasks of which batch they are"
        task = WriteAttempt(
            WriteName.of_query(query_id),
            int(batch_id),
            context.partitionId(),
            context.attemptNumber(),
            context.getLocalProperty(RUN_ID),
        )
        return write_rows(self._options, task, iterator)

    def commit(self, messages: Messages, batch_id: int) -> None:
        keep_loaded()
        reports = _reports(messages)
        if not reports:
            return
        _warn_of_less(self._options, reports[0].name, _delivery(reports))
        if _delivery(reports) is Delivery.EXACTLY_ONCE:
            from levada.spark.sink.commit import BatchCommit

            BatchCommit(self._options, reports[0].name, BatchMarker(batch_id, is_exact=True), reports).run()

    def abort(self, messages: Messages, batch_id: int) -> None:
        reports = _reports(messages)
        # Without a single report it is unknown which query it was: the next run ends what is open, or timeouts do.
        if _delivery(reports) not in (None, Delivery.AT_LEAST_ONCE):
            from levada.spark.sink.commit import abort

            abort(self._options, reports[0].name, reports)


def _task_context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "rows are written by tasks of Spark"
    return context


def _reports(messages: Messages) -> list[TaskReport]:
    """Those of tasks that have ended well; Spark has None for the others."""
    return [message for message in messages if isinstance(message, TaskReport)]


def _delivery(reports: list[TaskReport]) -> Delivery | None:
    """What the tasks have settled on; None where none has said anything."""
    return reports[0].delivery if reports else None


_warned: set[WriteName] = set()
"""Spark commits all batches of a query in one process."""


def _warn_of_less(options: SinkOptions, name: WriteName, delivery: Delivery | None) -> None:
    """Say once that brokers cannot do what the user did not ask for by name, but might expect."""
    if options.delivery is not None or delivery is not Delivery.AT_LEAST_ONCE or name in _warned:
        return
    _warned.add(name)
    logger.warning(
        "the brokers at %s cannot commit a batch as a whole, as Levada's do: rows are written at least once; "
        "delivery=at-least-once says that you know, delivery=atomic-tasks makes each task's rows visible at once",
        options.settings["bootstrap.servers"],
    )
