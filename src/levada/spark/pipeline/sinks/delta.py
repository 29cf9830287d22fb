"""A sink that appends to a Delta table, one commit for each micro-batch, with its number in it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from levada.spark.pipeline.chunks import chunks
from levada.spark.pipeline.problems import PipelineError, one_line, unknown
from levada.spark.pipeline.sinks.batches import BatchSink, Control, MicroBatch, is_written, visible
from levada.spark.rows.problems import quoted

if TYPE_CHECKING:
    from deltalake import DeltaTable


@dataclass(frozen=True, slots=True)
class DeltaSink(BatchSink):
    """`is_complete` replaces the table by each batch. Rows pass through the driver, a Spark partition at a time."""

    directory: str
    partition_by: tuple[str, ...] = ()
    is_complete: bool = False

    def problems(self, schema: StructType, query: str | None) -> list[str]:
        names = visible(schema.names)
        found = [unknown("column", name, names) for name in self.partition_by if name not in names]
        try:
            from deltalake import DeltaTable
        except ImportError:
            return [*found, "Delta needs a library: pip install 'levada[delta]'"]
        try:
            if not DeltaTable.is_deltatable(self.directory):
                return found
            kept = {field.name for field in DeltaTable(self.directory).schema().fields}
        except Exception as error:
            return [*found, f"cannot read the Delta table {self.directory}: {one_line(str(error))}"]
        return found + [
            f"table {self.directory}: {unknown('column', name, kept)}" for name in names if name not in kept
        ]

    def write(self, frame: DataFrame, batch: MicroBatch, control: Control) -> None:
        from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
        from deltalake.exceptions import CommitFailedError

        is_there = DeltaTable.is_deltatable(self.directory)
        table = DeltaTable(self.directory) if is_there else None
        if table is not None and is_written(table.transaction_version(batch.query), batch):
            return
        rows = _reader(frame.select(*map(quoted, visible(frame.columns))))
        if rows is None:
            if not self.is_complete:
                return
            # No rows are a result as well: those of the batch before go.
            rows = pa.RecordBatchReader.from_batches(_without_rows(frame), [])
        if table is None:
            table = self._created(rows.schema, batch)
            if table is None:
                return
        try:
            # The table as it was looked at: a driver that has written this batch since then makes this commit fail.
            write_deltalake(
                table,
                rows,
                mode="overwrite" if self.is_complete else "append",
                partition_by=list(self.partition_by) or None,
                commit_properties=CommitProperties(app_transactions=[Transaction(batch.query, batch.number)]),
            )
        except CommitFailedError as error:
            raise PipelineError(self._why_refused(batch)) from error

    def _created(self, schema: pa.Schema, batch: MicroBatch) -> "DeltaTable | None":
        """The table, made without rows unless another driver was quicker; None if that has written the batch."""
        from deltalake import DeltaTable

        # A commit that makes the table would not fail if another one has made it.
        DeltaTable.create(self.directory, schema, mode="ignore", partition_by=list(self.partition_by) or None)
        table = DeltaTable(self.directory)
        return None if is_written(table.transaction_version(batch.query), batch) else table

    def _why_refused(self, batch: MicroBatch) -> str:
        from deltalake import DeltaTable

        last = DeltaTable(self.directory).transaction_version(batch.query)
        if last is None or last < batch.number:
            return f"table {self.directory}: another writer has changed it while batch {batch.number} was written"
        return (
            f"table {self.directory}: another driver with this checkpoint has written batch {last} while this one "
            f"wrote batch {batch.number}: end one of the two"
        )


def _without_rows(frame: DataFrame) -> pa.Schema:
    fields = [field for field in frame.schema.fields if field.name in visible(frame.columns)]
    return _nullable(to_arrow_schema(StructType(fields), timezone="UTC"))


def _nullable(schema: pa.Schema) -> pa.Schema:
    """Whether a column can be null depends on the query's plan; a table should not."""
    return pa.schema([field.with_nullable(True) for field in schema])


def _reader(frame: DataFrame) -> pa.RecordBatchReader | None:
    """The rows as a stream; None if there are none."""
    rows = chunks(frame)
    first = next(rows, None)
    if first is None:
        return None
    schema = _nullable(first.schema)

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_arrays(first.columns, schema=schema)
        for batch in rows:
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())
