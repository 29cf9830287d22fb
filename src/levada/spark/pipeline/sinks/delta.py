"""A sink that appends to a Delta table, one commit for each micro-batch, with its number in it."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from levada.spark.pipeline.chunks import chunks
from levada.spark.pipeline.problems import one_line, unknown
from levada.spark.pipeline.sinks.batches import BatchSink, Control, MicroBatch, is_written, visible


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

        is_there = DeltaTable.is_deltatable(self.directory)
        if is_there and is_written(DeltaTable(self.directory).transaction_version(batch.query), batch):
            return
        rows = _reader(frame.select(*(f"`{name}`" for name in visible(frame.columns))))
        if rows is None:
            if not self.is_complete:
                return
            # No rows are a result as well: those of the batch before go.
            rows = pa.RecordBatchReader.from_batches(_without_rows(frame), [])
        write_deltalake(
            self.directory,
            rows,
            mode="overwrite" if self.is_complete else "append",
            partition_by=list(self.partition_by) or None,
            commit_properties=CommitProperties(app_transactions=[Transaction(batch.query, batch.number)]),
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
