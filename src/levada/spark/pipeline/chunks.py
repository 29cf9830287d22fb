"""A DataFrame's rows on the driver, in Arrow batches of a bounded size."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame


def chunks(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    """All rows, partition by partition, in batches of at most `spark.sql.execution.arrow.maxRecordsPerBatch` rows.

    The driver has one Spark partition at hand and the next on its way, never the whole frame.
    """
    names = frame.columns
    # Spark looks the columns up by name here, and would take a dot or a backtick in one for its own.
    numbered = frame.toDF(*(f"c{number}" for number in range(len(names))))
    for row in numbered.mapInArrow(_packed, "chunk binary").toLocalIterator(prefetchPartitions=True):
        with pa.ipc.open_stream(row.chunk) as stream:
            for batch in stream:
                yield batch.rename_columns(names)


def _packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each batch as one binary value: the driver would take rows one by one otherwise."""
    for batch in batches:
        packed = pa.BufferOutputStream()
        with pa.ipc.new_stream(packed, batch.schema) as stream:
            stream.write_batch(batch)
        yield pa.RecordBatch.from_pydict({"chunk": pa.array([packed.getvalue().to_pybytes()], pa.binary())})
