"""Takes an Arrow RecordBatch as records to be written: its columns checked and described, not copied where they fit."""

from typing import NamedTuple

import pyarrow as pa

from levada.model.buffers import Buffer
from levada.records.sources import BinarySource, HeaderSource, NumberSource, RecordSource

COLUMNS = ("key", "value", "headers", "timestamp", "partition")

_HEADERS = pa.list_(pa.struct([pa.field("key", pa.utf8()), pa.field("value", pa.binary())]))
_NO_PARTITION = -1


class ArrowRecords(NamedTuple):
    """Records to be written, and the partitions that the producer was told to write them to."""

    source: RecordSource
    partitions: memoryview | None
    """A 32-bit number for each row, -1 where none was told."""


def arrow_records(batch: pa.RecordBatch, timestamp_ms: int) -> ArrowRecords:
    """The columns key, value, headers, timestamp and partition of a batch; the only column of a batch is its value.

    Rows without a timestamp get the one given. The description refers to the batch's memory and keeps it alive.
    """
    if not isinstance(batch, pa.RecordBatch):
        raise TypeError(f"records are written from a pyarrow.RecordBatch, not {type(batch).__name__}")
    columns = _columns_by_name(batch)
    source = RecordSource(
        values=_binary("value", columns["value"]),
        keys=_binary("key", columns["key"]) if "key" in columns else None,
        headers=_headers(columns["headers"]) if "headers" in columns else None,
        timestamps=_timestamps(columns["timestamp"]) if "timestamp" in columns else None,
        timestamp_ms=timestamp_ms,
    )
    return ArrowRecords(source, _partitions(columns["partition"]) if "partition" in columns else None)


def _columns_by_name(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    names = batch.schema.names
    if len(names) == 1:
        return {"value": batch.column(0)}
    for name in names:
        if name not in COLUMNS:
            raise ValueError(f"no column of records is named {name!r}, only {', '.join(COLUMNS)}")
    if len(set(names)) < len(names):
        raise ValueError(f"a column comes twice among {', '.join(names)}")
    if "value" not in names:
        raise ValueError(f"no column is named 'value' among {', '.join(names)}")
    return dict(zip(names, batch.columns))


def _binary(name: str, column: pa.Array) -> BinarySource:
    found = column.type
    if pa.types.is_dictionary(found):
        column = column.dictionary_decode()
        found = column.type
    if pa.types.is_string_view(found) or pa.types.is_binary_view(found):
        column = _cast(name, column, pa.large_binary())
    elif pa.types.is_null(found) or pa.types.is_fixed_size_binary(found):
        column = _cast(name, column, pa.binary())
    elif not _is_binary(found):
        raise TypeError(f"column {name!r} holds {found}, where bytes or text are written")
    validity, ends, data = column.buffers()
    is_large = pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type)
    return BinarySource(len(column), column.offset, _validity(column, validity), _bytes(ends), is_large, _bytes(data))


def _headers(column: pa.Array) -> HeaderSource:
    if not _is_headers(column.type):
        column = _cast("headers", column, _HEADERS)
    validity, ends = column.buffers()[:2]
    structs = column.values
    # Those of rows that are null or outside of the slice do no harm.
    if structs.null_count and column.flatten().null_count:
        raise ValueError("column 'headers' has a null among the headers of a row")
    return HeaderSource(
        len(column),
        column.offset,
        _validity(column, validity),
        _bytes(ends),
        pa.types.is_large_list(column.type),
        _binary("headers", structs.field("key")),
        _binary("headers", structs.field("value")),
    )


def _timestamps(column: pa.Array) -> NumberSource:
    found = column.type
    if pa.types.is_timestamp(found):
        # Finer times lose what is below a millisecond; coarser ones must not overflow.
        column = _cast("timestamp", column, pa.timestamp("ms", found.tz), is_safe=found.unit == "s")
    elif found != pa.int64():
        raise TypeError(f"column 'timestamp' holds {found}, where int64 (ms) or a timestamp is written")
    validity, numbers = column.buffers()
    return NumberSource(len(column), column.offset, _validity(column, validity), _bytes(numbers))


def _partitions(column: pa.Array) -> memoryview:
    if not pa.types.is_integer(column.type):
        raise TypeError(f"column 'partition' holds {column.type}, where int32 is written")
    column = _cast("partition", column, pa.int32())
    if column.null_count:
        column = column.fill_null(_NO_PARTITION)
    numbers = memoryview(_bytes(column.buffers()[1])).cast("B")
    return numbers[4 * column.offset : 4 * (column.offset + len(column))].cast("i")


def _is_binary(found: pa.DataType) -> bool:
    return found in (pa.binary(), pa.utf8(), pa.large_binary(), pa.large_utf8())


def _is_headers(found: pa.DataType) -> bool:
    if not (pa.types.is_list(found) or pa.types.is_large_list(found)) or not pa.types.is_struct(found.value_type):
        return False
    item = found.value_type
    if [item.field(position).name for position in range(item.num_fields)] != ["key", "value"]:
        return False
    return item.field(0).type in (pa.utf8(), pa.large_utf8()) and _is_binary(item.field(1).type)


def _cast(name: str, column: pa.Array, wanted: pa.DataType, *, is_safe: bool = True) -> pa.Array:
    try:
        return column.cast(wanted, safe=is_safe)
    except pa.ArrowInvalid as error:
        raise ValueError(f"column {name!r}: {error}") from None
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise TypeError(f"column {name!r} holds {column.type}, where {wanted} is written") from None


def _validity(column: pa.Array, validity: pa.Buffer | None) -> Buffer | None:
    return _bytes(validity) if column.null_count else None


def _bytes(buffer: pa.Buffer | None) -> Buffer:
    # An array without rows or bytes may do without memory.
    return b"" if buffer is None else memoryview(buffer)
