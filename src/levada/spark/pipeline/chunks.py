"""A DataFrame's rows on the driver, in Arrow batches of a bounded size."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Final

import pyarrow as pa
from pyspark.sql import DataFrame

CHUNK_BYTES: Final = 8 << 20
"""A database gets a chunk as one statement, and PostgreSQL takes none of a gigabyte."""

MEMORY_BYTES: Final = 64 << 20
LENGTH_BYTES: Final = 8


class Spool:
    """Chunks that are there to be read as often as it takes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self._file.seek(0)
        while length := self._file.read(LENGTH_BYTES):
            yield from unpacked(self._file.read(int.from_bytes(length)))


@contextmanager
def spooled(chunks: Iterable[bytes]) -> Iterator[Spool]:
    """All of them, in memory, in a file if they are many."""
    with tempfile.SpooledTemporaryFile(max_size=MEMORY_BYTES) as file:
        for chunk in chunks:
            file.write(len(chunk).to_bytes(LENGTH_BYTES))
            file.write(chunk)
        yield Spool(file)


def chunks(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    """All rows, partition by partition, in batches of at most `spark.sql.execution.arrow.maxRecordsPerBatch` rows.

    None has more than CHUNK_BYTES, unless one row has. The driver has one Spark partition at hand and the next on its
    way, never the whole frame.
    """
    names = frame.columns
    for chunk in packed_chunks(frame):
        for batch in unpacked(chunk):
            yield batch.rename_columns(names)


def packed_chunks(frame: DataFrame) -> Iterator[bytes]:
    """The same, each as bytes, with columns that are called c0, c1 and so on."""
    # Spark looks the columns up by name here, and would take a dot or a backtick in one for its own.
    numbered = frame.toDF(*(f"c{number}" for number in range(len(frame.columns))))
    for row in numbered.mapInArrow(_packed, "chunk binary").toLocalIterator(prefetchPartitions=True):
        yield bytes(row.chunk)


def unpacked(chunk: bytes) -> Iterator[pa.RecordBatch]:
    with pa.ipc.open_stream(chunk) as stream:
        yield from stream


def pieces(batch: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """The batch, cut until no part has more bytes, or one row."""
    if batch.num_rows <= 1 or batch.nbytes <= most_bytes:
        yield batch
        return
    half = batch.num_rows // 2
    yield from pieces(batch.slice(0, half), most_bytes)
    yield from pieces(batch.slice(half), most_bytes)


def _packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each batch as one binary value: the driver would take rows one by one otherwise."""
    for batch in batches:
        for piece in pieces(batch, CHUNK_BYTES):
            packed = pa.BufferOutputStream()
            with pa.ipc.new_stream(packed, piece.schema) as stream:
                stream.write_batch(piece)
            yield pa.RecordBatch.from_pydict({"chunk": pa.array([packed.getvalue().to_pybytes()], pa.binary())})
