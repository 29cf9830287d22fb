"""The batch writer in plain Python: serves where no compiler was at hand, and is what the compiled one must equal."""

from array import array
from collections.abc import Callable, Sequence
from operator import index

from levada.model.buffers import Buffer
from levada.model.hashes import murmur2, partition_for_key
from levada.records.batch import HEADER_SIZE, TRANSACTIONAL_BIT
from levada.records.compression import Codec
from levada.records.pure import encode
from levada.records.record import NO_TIMESTAMP, HeaderInput, RecordInput
from levada.records.sealing import close_batch, read_back, write_header
from levada.records.sources import BinarySource, HeaderSource, NumberSource, RecordSource

__all__ = [
    "BatchWriter",
    "RecordColumns",
    "murmur2",
    "partitions_of_columns",
    "partitions_of_list",
    "write_columns",
    "write_lists",
]

_MAX_INT32 = (1 << 31) - 1


class BatchWriter:
    """A batch that is being filled; its first 61 bytes are kept for the header."""

    __slots__ = ("_batch", "_capacity", "_codec", "_is_sealed", "base_timestamp", "count", "max_timestamp", "size")

    count: int
    """The records so far."""
    size: int
    """Bytes so far, the header's among them, before compression."""
    base_timestamp: int
    """The first record's, in ms."""
    max_timestamp: int

    def __init__(self, capacity: int, memory: bytearray | None = None) -> None:
        if not 0 < capacity <= _MAX_INT32:
            raise ValueError(f"a batch has up to {_MAX_INT32} bytes, not {capacity}")
        self._capacity = capacity
        self._batch = bytearray(HEADER_SIZE)
        self._codec = Codec.NONE
        self._is_sealed = False
        self.count = 0
        self.size = HEADER_SIZE
        self.base_timestamp = self.max_timestamp = NO_TIMESTAMP

    def append(
        self, timestamp_ms: int, key: Buffer | None, value: Buffer | None, headers: Sequence[HeaderInput] = ()
    ) -> int:
        """The index of the new record, or -1 and nothing changed when the batch is sealed or has no room for it.

        An empty batch takes a record of any size.
        """
        timestamp_ms = index(timestamp_ms)
        plain = [_plain_header(name, content) for name, content in headers]
        base_timestamp = self.base_timestamp if self.count else timestamp_ms
        row: RecordInput = (timestamp_ms, _plain(key), _plain(value), plain)
        record = encode([row], base_timestamp, [self.count])
        if self._is_sealed or (self.count and self.size + len(record) > self._capacity):
            return -1
        if self.size + len(record) > _MAX_INT32:
            raise OverflowError(f"a batch of {self.size + len(record)} bytes does not fit 31 bits")
        self._batch += record
        self.max_timestamp = max(self.max_timestamp, timestamp_ms) if self.count else timestamp_ms
        self.base_timestamp = base_timestamp
        self.size += len(record)
        self.count += 1
        return self.count - 1

    def stop(self) -> None:
        """Take no more records."""
        self._capacity = self.size

    def seal(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        is_transactional: bool,
        codec: Codec = Codec.NONE,
        level: int | None = None,
    ) -> memoryview:
        """The whole batch as it goes on the wire; from now on it takes no more records.

        Another call writes another header, say after an epoch was bumped, into the same memory: views from before see
        it too. The records stay as the first call has compressed them.
        """
        if not self.count:
            raise ValueError("a batch without records cannot be sealed")
        if not self._is_sealed:
            self._batch = close_batch(self._batch, codec, level)
            self._codec = codec
            self._is_sealed = True
        return write_header(
            self._batch,
            self._codec | is_transactional * TRANSACTIONAL_BIT,
            self.count,
            self.base_timestamp,
            self.max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
        )

    def give_back(self) -> bytearray | None:
        """The memory of a batch that will not be sent again, for another; here that would save nothing."""
        return None

    def records(self) -> list[RecordInput]:
        """The records that were written, read back: for a batch that turned out too large and is split."""
        with memoryview(self._batch) as view:
            return read_back(view[HEADER_SIZE:], self._codec, self.size, self.count, self.base_timestamp)


class RecordColumns:
    """All columns of records to be written, ready for any number of calls."""

    __slots__ = ("headers_of", "key_of", "row_count", "timestamp_of", "value_of")

    row_count: int
    value_of: Callable[[int], bytes | None]
    key_of: Callable[[int], bytes | None]
    headers_of: Callable[[int], list[tuple[str, bytes | None]]]
    timestamp_of: Callable[[int], int]

    def __init__(self, source: RecordSource) -> None:
        self.row_count = source.values.row_count
        self.value_of = _binary_column(source.values)
        self.key_of = _nothing if source.keys is None else _binary_column(source.keys)
        self.headers_of = _no_headers if source.headers is None else _header_column(source.headers)
        self.timestamp_of = _time_column(source.timestamps, source.timestamp_ms)
        for column in (source.keys, source.headers, source.timestamps):
            if column is not None and column.row_count != self.row_count:
                raise ValueError(f"columns of {self.row_count} and of {column.row_count} rows")


def write_lists(
    writers: Sequence[BatchWriter | None],
    partitions: "Buffer | array[int] | None",
    timestamp_ms: int,
    keys: Sequence[Buffer | None] | None,
    values: Sequence[Buffer | None],
    start: int,
    stop: int,
) -> int:
    """Append the rows from start on, each to its partition's writer, and say which is the first that was not.

    That is `stop`, or a row whose writer is None or full. Without partitions, all rows are for the first writer. A row
    that cannot be written raises where it is the first; where others come before it, these are written and it is told.
    """
    for column in (values,) if keys is None else (values, keys):
        _check_sequence(column)
        _check_rows(start, stop, len(column))

    def append(writer: BatchWriter, row: int) -> int:
        return writer.append(timestamp_ms, None if keys is None else keys[row], values[row])

    return _write_rows(writers, partitions, append, start, stop)


def write_columns(
    writers: Sequence[BatchWriter | None],
    partitions: "Buffer | array[int] | None",
    columns: RecordColumns,
    start: int,
    stop: int,
) -> int:
    """The same for rows of columns, with the times and headers that these have."""
    _check_rows(start, stop, columns.row_count)

    def append(writer: BatchWriter, row: int) -> int:
        key, value, headers = columns.key_of(row), columns.value_of(row), columns.headers_of(row)
        return writer.append(columns.timestamp_of(row), key, value, headers)

    return _write_rows(writers, partitions, append, start, stop)


def partitions_of_list(keys: Sequence[Buffer | None], partition_count: int) -> "array[int]":
    """The partition that Java's producer chooses for each key, as array('i'); -1 for a null key."""
    _check_sequence(keys)
    if partition_count <= 0:
        raise ValueError(f"{partition_count} partitions")
    plain = map(_plain, keys)
    return array("i", [-1 if key is None else partition_for_key(key, partition_count) for key in plain])


def partitions_of_columns(columns: RecordColumns, partition_count: int) -> "array[int]":
    """The same for the rows of columns."""
    return partitions_of_list([columns.key_of(row) for row in range(columns.row_count)], partition_count)


def _write_rows(
    writers: Sequence[BatchWriter | None],
    partitions: "Buffer | array[int] | None",
    append: Callable[[BatchWriter, int], int],
    start: int,
    stop: int,
) -> int:
    for writer in writers:
        if writer is not None and type(writer) is not BatchWriter:
            raise TypeError(f"rows are written by a BatchWriter, not {type(writer).__name__}")
    view = None if partitions is None else memoryview(partitions)
    if view is not None:
        if view.ndim != 1 or view.format != "i":
            raise TypeError("partitions come as an array of 32-bit numbers")
        _check_rows(start, stop, len(view))
    for row in range(start, stop):
        partition = 0 if view is None else view[row]
        try:
            if not 0 <= partition < len(writers):
                raise IndexError(f"row {row} is for partition {partition} of {len(writers)}")
            writer = writers[partition]
            if writer is None or append(writer, row) < 0:
                return row
        except Exception:
            if row == start:
                raise
            return row
    return stop


def _check_sequence(rows: Sequence[Buffer | None]) -> None:
    if not isinstance(rows, list | tuple):
        raise TypeError(f"rows come in a list or a tuple, not {type(rows).__name__}")


def _check_rows(start: int, stop: int, row_count: int) -> None:
    if not 0 <= start <= stop <= row_count:
        raise ValueError(f"rows {start} to {stop} of {row_count}")


def _plain_header(name: str, content: Buffer | None) -> tuple[str, bytes | None]:
    if not isinstance(name, str):
        raise TypeError(f"a header key is text, not {type(name).__name__}")
    return name, _plain(content)


def _plain(field: Buffer | None) -> bytes | None:
    if field is None or type(field) is bytes:
        return field
    view = memoryview(field)
    if not view.c_contiguous:
        raise BufferError("a field's bytes lie next to each other")
    if view.nbytes > _MAX_INT32:
        raise OverflowError(f"a field of {view.nbytes} bytes does not fit 31 bits")
    return bytes(view)


# Arrow's columns, each as a function from a row to what it holds


def _binary_column(source: BinarySource) -> Callable[[int], bytes | None]:
    is_null = _null_column(source.validity, source.row_count, source.first)
    ends = _numbers(source.ends, "q" if source.is_large else "i", source.row_count, source.first, 1)
    data = memoryview(source.data).cast("B")

    def value_of(row: int) -> bytes | None:
        if is_null(row):
            return None
        begin, end = ends[row], ends[row + 1]
        if not 0 <= begin <= end <= len(data):
            raise ValueError(f"row {row} goes beyond the data of its column")
        return bytes(data[begin:end])

    return value_of


def _header_column(source: HeaderSource) -> Callable[[int], list[tuple[str, bytes | None]]]:
    is_null = _null_column(source.validity, source.row_count, source.first)
    ends = _numbers(source.ends, "q" if source.is_large else "i", source.row_count, source.first, 1)
    key_of, value_of = _binary_column(source.keys), _binary_column(source.values)
    header_count = min(source.keys.row_count, source.values.row_count)

    def headers_of(row: int) -> list[tuple[str, bytes | None]]:
        if is_null(row):
            return []
        begin, end = ends[row], ends[row + 1]
        if not 0 <= begin <= end <= header_count:
            raise ValueError(f"the headers of row {row} go beyond their column")
        pairs = []
        for header in range(begin, end):
            name = key_of(header)
            if name is None:
                raise ValueError("a header has no key")
            pairs.append((name.decode(), value_of(header)))
        return pairs

    return headers_of


def _time_column(source: NumberSource | None, timestamp_ms: int) -> Callable[[int], int]:
    if source is None:
        return lambda row: timestamp_ms
    is_null = _null_column(source.validity, source.row_count, source.first)
    times = _numbers(source.numbers, "q", source.row_count, source.first, 0)
    return lambda row: timestamp_ms if is_null(row) else times[row]


def _null_column(validity: Buffer | None, row_count: int, first: int) -> Callable[[int], bool]:
    if validity is None:
        return lambda row: False
    bits = memoryview(validity).cast("B")
    if row_count < 0 or first < 0 or 8 * len(bits) < first + row_count:
        raise ValueError(f"{len(bits)} bytes of validity do not hold {row_count} rows from {first} on")
    return lambda row: not bits[(first + row) >> 3] >> ((first + row) & 7) & 1


def _numbers(data: Buffer, code: str, row_count: int, first: int, extra: int) -> "array[int]":
    if row_count < 0 or first < 0:
        raise ValueError(f"{row_count} rows from {first} on")
    view = memoryview(data).cast("B")
    numbers: array[int] = array(code)
    if row_count and len(view) // numbers.itemsize < first + row_count + extra:
        raise ValueError(f"{len(view)} bytes do not hold {row_count} rows from {first} on")
    numbers.frombytes(view[numbers.itemsize * first : numbers.itemsize * (first + row_count + extra)])
    return numbers


def _nothing(row: int) -> None:
    return None


def _no_headers(row: int) -> list[tuple[str, bytes | None]]:
    return []
