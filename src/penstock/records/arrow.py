"""Record batches as one Arrow RecordBatch, over the kernel's buffers without copying them."""

from collections.abc import Iterable

import pyarrow as pa

from penstock.model.buffers import Buffer
from penstock.records.batch import BatchView
from penstock.records.compression import MAX_DECOMPRESSED_BYTES
from penstock.records.kernel import decode_columns
from penstock.records.record import BinaryColumn, Columns, Part

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


def decode_arrow(batches: Iterable[BatchView], max_size: int = MAX_DECOMPRESSED_BYTES) -> pa.RecordBatch:
    """The records of these batches in one RecordBatch; timestamps are milliseconds, control batches are left out.

    max_size bounds what all of them together may take after decompression.
    """
    parts: list[Part] = []
    for batch in batches:
        if batch.is_control:
            continue
        body = batch.uncompressed_body(max_size)
        max_size -= len(body)
        parts.append(
            Part(body, batch.record_count, batch.base_offset, batch.base_timestamp, batch.log_append_timestamp)
        )
    return to_record_batch(decode_columns(parts))


def to_record_batch(columns: Columns) -> pa.RecordBatch:
    """The kernel's columns as Arrow sees them; the arrays keep the buffers alive."""
    count = columns.record_count
    names = pa.Array.from_buffers(
        pa.utf8(), columns.header_count, [None, _buffer(columns.header_key_offsets), _buffer(columns.header_key_data)]
    )
    contents = _binary_array(columns.header_count, columns.header_values)
    structs = pa.Array.from_buffers(HEADER_TYPE, columns.header_count, [None], children=[names, contents])
    arrays = [
        pa.Array.from_buffers(pa.int64(), count, [None, _buffer(columns.offsets)]),
        pa.Array.from_buffers(pa.int64(), count, [None, _buffer(columns.timestamps)]),
        _binary_array(count, columns.keys),
        _binary_array(count, columns.values),
        pa.Array.from_buffers(
            SCHEMA.field("headers").type, count, [None, _buffer(columns.header_list_offsets)], children=[structs]
        ),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _binary_array(count: int, column: BinaryColumn) -> pa.Array:
    # Arrow takes a missing bitmap for "no nulls" and then skips it in every operation.
    validity = _buffer(column.validity) if column.null_count else None
    buffers = [validity, _buffer(column.offsets), _buffer(column.data)]
    return pa.Array.from_buffers(pa.binary(), count, buffers, null_count=column.null_count)


def _buffer(data: Buffer) -> pa.Buffer:
    return pa.py_buffer(data)
