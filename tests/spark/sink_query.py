"""A query that writes with the sink's protocol, without Spark."""

import uuid
from collections.abc import Sequence

import pyarrow as pa

from levada import Admin
from levada.spark.sink.brokers import read_marker
from levada.spark.sink.commit import BatchCommit, abort
from levada.spark.sink.names import BatchMarker, WriteName
from levada.spark.sink.options import SinkOptions, read_options
from levada.spark.sink.report import TaskReport
from levada.spark.sink.task import WriteAttempt, write_rows
from tests.spark.sink_checks import (
    sink_options,
)


class Query:
    """One run of a query, without Spark: its tasks and its driver."""

    def __init__(self, bootstrap: str, topic: str, query_id: str | None = None, **options: str) -> None:
        self.query_id = query_id or str(uuid.uuid4())
        self.name = WriteName.of_query(self.query_id)
        self.options: SinkOptions = read_options(sink_options(bootstrap, topic=topic, **options), is_stream=True)
        self._run = str(uuid.uuid4())

    def write(self, batch: int, partition: int, rows: Sequence[int], attempt: int = 0) -> TaskReport:
        task = WriteAttempt(self.name, batch, partition, attempt, self._run)
        return write_rows(self.options, task, iter([rows_of(rows)]))

    def commit(self, batch: int, *reports: TaskReport) -> None:
        BatchCommit(self.options, self.name, BatchMarker(batch, is_exact=True), reports).run()

    def abort(self, *reports: TaskReport) -> None:
        abort(self.options, self.name, reports)

    def marker(self) -> int | None:
        with Admin(**self.options.admin_settings) as admin:
            return read_marker(admin, self.name, is_stable=True)


def rows_of(given: Sequence[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": pa.array([str(each) for each in given], pa.utf8())})
