"""Record batches as one Arrow RecordBatch, over the kernel's buffers without copying them."""

import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa

from levada.records.batch import BatchView
from levada.records.compression import MAX_DECOMPRESSED_BYTES
from levada.records.kernel import data_of_runs, decode_columns, ends_of_runs, skip_below
from levada.records.record import CREATE_TIME, LOG_APPEND_TIME, BinaryColumn, Columns, RecordSection

HEADER_TYPE = pa.struct([pa.field("key", pa.utf8(), nullable=False), pa.field("value", pa.binary())])

SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(pa.field("item", HEADER_TYPE, nullable=False)), nullable=False),
    ]
)


CONSUMER_SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.utf8(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC"), nullable=False),
        pa.field("timestampType", pa.int32(), nullable=False),
        SCHEMA.field("headers"),
    ]
)


class PartitionBatches(NamedTuple):
    """What a consumer fetched of one partition, without control batches and those of aborted transactions."""

    topic: str
    partition: int
    first_offset: int
    """The first one wanted: a broker sends whole batches, so the first may begin before it."""
    batches: Sequence[BatchView]


def decode_arrow_partitions(
    partitions: Iterable[PartitionBatches], max_size: int = MAX_DECOMPRESSED_BYTES
) -> pa.RecordBatch:
    """The records of several partitions in one RecordBatch, with the columns that Spark's Kafka source has.

    max_size bounds what all of them together may take after decompression.
    """
    parts: list[RecordSection] = []
    origins: list[tuple[int, str, int]] = []
    for topic, partition, first_offset, batches in partitions:
        rows = 0
        for batch in batches:
            part = _part(batch, max_size)
            max_size -= len(part.body)
            if batch.base_offset < first_offset:
                part = _from_offset(part, first_offset)
            parts.append(part)
            rows += part.record_count
        origins.append((rows, topic, partition))
    columns = decode_columns(parts, pa.allocate_buffer)
    count = columns.record_count
    arrays = [
        _binary_array(count, columns.keys),
        _binary_array(count, columns.values),
        _text_array([(rows, topic) for rows, topic, _ in origins]),
        _number_array([(rows, partition) for rows, _, partition in origins]),
        pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(columns.offsets)]),
        pa.Array.from_buffers(CONSUMER_SCHEMA.field("timestamp").type, count, [None, pa.py_buffer(columns.timestamps)]),
        _number_array([(part.record_count, _timestamp_type(part)) for part in parts]),
        _header_array(columns),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=CONSUMER_SCHEMA)


def _part(batch: BatchView, max_size: int) -> RecordSection:
    body = batch.uncompressed_body(max_size)
    return RecordSection(body, batch.record_count, batch.base_offset, batch.base_timestamp, batch.log_append_timestamp)


def _from_offset(part: RecordSection, first_offset: int) -> RecordSection:
    skipped, size = skip_below(part.body, part.record_count, first_offset - part.base_offset)
    return part._replace(body=memoryview(part.body)[size:], record_count=part.record_count - skipped)


def _timestamp_type(part: RecordSection) -> int:
    return CREATE_TIME if part.log_append_timestamp is None else LOG_APPEND_TIME


def _number_array(runs: list[tuple[int, int]]) -> pa.Array:
    """A column that has the same 32 bits in all rows of a run."""
    data = data_of_runs([(rows, number.to_bytes(4, sys.byteorder)) for rows, number in runs], pa.allocate_buffer)
    return pa.Array.from_buffers(pa.int32(), sum(rows for rows, _ in runs), [None, pa.py_buffer(data)])


def _text_array(runs: list[tuple[int, str]]) -> pa.Array:
    """A column that has the same text in all rows of a run."""
    encoded = [(rows, text.encode()) for rows, text in runs]
    ends = ends_of_runs([(rows, len(text)) for rows, text in encoded], pa.allocate_buffer)
    data = data_of_runs(encoded, pa.allocate_buffer)
    return pa.Array.from_buffers(
        pa.utf8(), sum(rows for rows, _ in runs), [None, pa.py_buffer(ends), pa.py_buffer(data)]
    )


def to_record_batch(columns: Columns) -> pa.RecordBatch:
    """The kernel's columns as Arrow sees them; the arrays keep the buffers alive."""
    count = columns.record_count
    arrays = [
        pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(columns.offsets)]),
        pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(columns.timestamps)]),
        _binary_array(count, columns.keys),
        _binary_array(count, columns.values),
        _header_array(columns),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _header_array(columns: Columns) -> pa.Array:
    names = pa.Array.from_buffers(
        pa.utf8(),
        columns.header_count,
        [None, pa.py_buffer(columns.header_key_offsets), pa.py_buffer(columns.header_key_data)],
    )
    contents = _binary_array(columns.header_count, columns.header_values)
    structs = pa.Array.from_buffers(HEADER_TYPE, columns.header_count, [None], children=[names, contents])
    list_ends = pa.py_buffer(columns.header_list_offsets)
    return pa.Array.from_buffers(
        SCHEMA.field("headers").type, columns.record_count, [None, list_ends], children=[structs]
    )


def _binary_array(count: int, column: BinaryColumn) -> pa.Array:
    # Arrow takes a missing bitmap for "no nulls" and then skips it in every operation.
    validity = pa.py_buffer(column.validity) if column.null_count else None
    buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(pa.binary(), count, buffers, null_count=column.null_count)
