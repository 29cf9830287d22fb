"""The record kernel in plain Python: serves where no compiler was at hand, and is what the compiled one must equal."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from struct import Struct
from typing import NoReturn, TypeAlias

from levada.model.buffers import Buffer
from levada.records.errors import CorruptBatch
from levada.records.record import (
    BATCH_HEADER,
    BATCH_HEADER_SIZE,
    BATCH_LENGTH_OVERHEAD,
    BATCH_MAGIC,
    BATCH_TRANSACTIONAL_BIT,
    CREATE_TIME,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    SMALLEST_RECORD,
    BinaryColumn,
    Columns,
    ConsumerRecord,
    Header,
    HeaderInput,
    Record,
    RecordInput,
    RecordSection,
    Scan,
)
from levada.records.varint import (
    VARINT_BYTES,
    VARLONG_BYTES,
    decode_unsigned,
    decode_varint,
    encode_varint,
    encode_varlong,
)

_MIN_INT64 = -(1 << 63)
_MAX_INT64 = (1 << 63) - 1
_MAX_INT32 = (1 << 31) - 1

# offset, timestamp, key, value, headers
_Row: TypeAlias = tuple[int, int, bytes | None, bytes | None, tuple[Header, ...]]

# Base offset, length, magic, last offset delta.
_EXTENT = Struct(">qi4xb6xi")

# Nearly every length and delta is small: looking it up costs a third of encoding it.
_SMALL_VARINTS = tuple(encode_varint(value) for value in range(1024))

# The constructor that NamedTuple generates takes twice as long.
_new_record = partial(tuple.__new__, Record)


def scan(body: Buffer, count: int) -> Scan:
    """Check the structure of every record of an uncompressed section, and sum up what a broker asks of it."""
    first = last = 0
    is_consecutive = True
    min_timestamp = _MAX_INT64
    max_timestamp = _MIN_INT64
    max_index = -1
    null_keys = 0
    for index, (offset_delta, timestamp_delta, key, _, _) in enumerate(rows(body, count, 0, 0)):
        if index == 0:
            first = offset_delta
        last = offset_delta
        if offset_delta != index:
            is_consecutive = False
        if timestamp_delta > max_timestamp or max_index < 0:
            max_timestamp = timestamp_delta
            max_index = index
        min_timestamp = min(min_timestamp, timestamp_delta)
        null_keys += key is None
    if not count:
        return Scan(0, 0, -1, True, 0, 0, -1, 0)
    return Scan(count, first, last, is_consecutive, min_timestamp, max_timestamp, max_index, null_keys)


def find_unfit(
    body: Buffer, count: int, base_timestamp: int, earliest_ms: int, latest_ms: int, needs_keys: bool, limit: int
) -> list[tuple[int, int | None]]:
    """The records that a topic refuses, up to a limit: (index, None) without a key, else (index, timestamp).

    The body is one that `scan` has passed.
    """
    unfit: list[tuple[int, int | None]] = []
    for index, (_, timestamp_ms, key, _, _) in enumerate(rows(body, count, 0, base_timestamp)):
        if needs_keys and key is None:
            unfit.append((index, None))
        elif timestamp_ms != NO_TIMESTAMP and not earliest_ms <= timestamp_ms <= latest_ms:
            unfit.append((index, timestamp_ms))
        if len(unfit) >= limit:
            break
    return unfit


def find_since(
    body: Buffer,
    count: int,
    base_offset: int,
    base_timestamp: int,
    log_append_timestamp: int | None,
    timestamp_ms: int,
    from_offset: int,
) -> tuple[int, int] | None:
    """Offset and timestamp of the first record from an offset on that is not older; None if there is none."""
    for offset, created_ms, *_ in rows(body, count, base_offset, base_timestamp):
        found_ms = created_ms if log_append_timestamp is None else log_append_timestamp
        if found_ms >= timestamp_ms and offset >= from_offset:
            return offset, found_ms
    return None


def plain_batch(data: Buffer) -> tuple[int, int, int, int] | None:
    """CRC, last offset delta, least and greatest timestamp of the one batch that fills `data`; None for most.

    Plain is a batch of well formed records, not compressed, with nothing but defaults in its header, of no producer
    that must be remembered, and with the right maximum timestamp. The checksum is for the caller to compare.
    """
    return _read_plain(data, 0, has_any_producer=False)


def plain_batch_of_producer(data: Buffer) -> tuple[int, int, int, int] | None:
    """The same for a batch that may also be of a producer with state, and part of a transaction."""
    return _read_plain(data, BATCH_TRANSACTIONAL_BIT, has_any_producer=True)


def _read_plain(data: Buffer, allowed_attributes: int, *, has_any_producer: bool) -> tuple[int, int, int, int] | None:
    if len(data) < BATCH_HEADER_SIZE:
        return None
    base_offset, length, _, magic, crc, attributes, last_offset_delta, base, max_timestamp, producer_id, _, _, count = (
        BATCH_HEADER.unpack_from(data, 0)
    )
    if base_offset or length != len(data) - BATCH_LENGTH_OVERHEAD or magic != BATCH_MAGIC:
        return None
    if attributes & ~allowed_attributes or not (has_any_producer or producer_id == -1):
        return None
    if count <= 0 or count - 1 != last_offset_delta:
        return None
    try:
        found = scan(memoryview(data)[BATCH_HEADER_SIZE:], count)
    except CorruptBatch:
        return None
    low, high = found.min_timestamp_delta, found.max_timestamp_delta
    if base + low < _MIN_INT64 or base + high != max_timestamp or max_timestamp < NO_TIMESTAMP:
        return None
    return crc, last_offset_delta, base + low, max_timestamp


def extents(data: Buffer) -> tuple[int, list[int], list[int]]:
    """The first offset in stored bytes, where each whole batch begins and the last one ends, and their last offsets.

    Ends at the first batch that is cut off, not of format 2, or not behind the one before it.
    """
    first, start, last_offset = 0, 0, -1
    starts: list[int] = [0]
    last_offsets: list[int] = []
    while start + BATCH_HEADER_SIZE <= len(data):
        base_offset, length, magic, last_offset_delta = _EXTENT.unpack_from(data, start)
        end = start + length + BATCH_LENGTH_OVERHEAD
        if magic != BATCH_MAGIC or end < start + BATCH_HEADER_SIZE or end > len(data):
            break
        if base_offset <= last_offset or last_offset_delta < 0 or base_offset > _MAX_INT64 - last_offset_delta:
            break
        if not start:
            first = base_offset
        start = end
        last_offset = base_offset + last_offset_delta
        starts.append(end)
        last_offsets.append(last_offset)
    return first, starts, last_offsets


def encode(records: Sequence[RecordInput], base_timestamp: int, offset_deltas: Sequence[int] | None = None) -> bytes:
    """The record section for these records, uncompressed; offset deltas are 0, 1, 2, ... unless given."""
    if not _MIN_INT64 <= base_timestamp <= _MAX_INT64:
        raise OverflowError(f"timestamp {base_timestamp} does not fit 64 bits")
    if offset_deltas is not None and len(offset_deltas) != len(records):
        raise ValueError(f"{len(offset_deltas)} offset deltas for {len(records)} records")
    parts: list[bytes] = []
    for index, (timestamp_ms, key, value, headers) in enumerate(records):
        if not _MIN_INT64 <= timestamp_ms <= _MAX_INT64:
            raise OverflowError(f"timestamp {timestamp_ms} does not fit 64 bits")
        timestamp_delta = timestamp_ms - base_timestamp
        offset_delta = index if offset_deltas is None else offset_deltas[index]
        fields = (
            b"\x00",
            _SMALL_VARINTS[timestamp_delta] if 0 <= timestamp_delta < 1024 else encode_varlong(_wrap(timestamp_delta)),
            _SMALL_VARINTS[offset_delta] if 0 <= offset_delta < 1024 else encode_varint(offset_delta),
            _sized(key),
            _sized(value),
            _encode_headers(headers) if headers else b"\x00",
        )
        size = sum(map(len, fields))
        parts.append(_SMALL_VARINTS[size] if size < 1024 else encode_varint(size))
        parts.extend(fields)
    return b"".join(parts)


def decode(
    body: Buffer, count: int, base_offset: int, base_timestamp: int, log_append_timestamp: int | None
) -> list[Record]:
    """The records of an uncompressed section; all carry the append time if there is one."""
    found = rows(body, count, base_offset, base_timestamp)
    if log_append_timestamp is None:
        return [_new_record(row) for row in found]
    return [_new_record((offset, log_append_timestamp, *fields)) for offset, _, *fields in found]


def decode_for_consumer(
    body: Buffer,
    count: int,
    base_offset: int,
    base_timestamp: int,
    log_append_timestamp: int | None,
    topic: str,
    partition: int,
    leader_epoch: int | None,
) -> list[ConsumerRecord]:
    """The same records as a consumer hands them out, each with the partition that it came from."""
    timestamp_type = CREATE_TIME if log_append_timestamp is None else LOG_APPEND_TIME
    return [
        ConsumerRecord(
            topic,
            partition,
            offset,
            timestamp_ms if log_append_timestamp is None else log_append_timestamp,
            timestamp_type,
            key,
            value,
            headers,
            leader_epoch,
        )
        for offset, timestamp_ms, key, value, headers in rows(body, count, base_offset, base_timestamp)
    ]


def unfilled(size: int) -> bytearray:
    """So many bytes of memory, for a caller that fills all of it."""
    return bytearray(size)


def skip_below(body: Buffer, count: int, offset_delta: int) -> tuple[int, int]:
    """How many records at the start of an uncompressed section have a smaller offset delta, and their bytes."""
    skipped = at = 0
    data = bytes(body)
    for found_delta, *_ in rows(data, count, 0, 0):
        if found_delta >= offset_delta:
            break
        length, at = decode_varint(data, at)
        at += length
        skipped += 1
    return skipped, at


def decode_columns(parts: Sequence[RecordSection], allocate: Callable[[int], Buffer] = bytearray) -> Columns:
    """The records of several uncompressed sections as one set of Arrow buffers; here `allocate` has no part in it."""
    if sum(len(part[0]) for part in parts) > _MAX_INT32:
        raise ValueError("more than 2 GiB of records do not fit one set of columns")
    offsets = array("q")
    timestamps = array("q")
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    header_ends = array("i", (0,))
    header_keys: list[bytes | None] = []
    header_values: list[bytes | None] = []
    for body, count, base_offset, base_timestamp, log_append_timestamp in parts:
        for offset, timestamp_ms, key, value, headers in rows(body, count, base_offset, base_timestamp):
            offsets.append(offset)
            timestamps.append(timestamp_ms if log_append_timestamp is None else log_append_timestamp)
            keys.append(key)
            values.append(value)
            for name, content in headers:
                header_keys.append(name.encode())
                header_values.append(content)
            header_ends.append(len(header_keys))
    names = _binary_column(header_keys)
    return Columns(
        len(offsets),
        bytearray(offsets),
        bytearray(timestamps),
        _binary_column(keys),
        _binary_column(values),
        len(header_keys),
        bytearray(header_ends),
        names.offsets,
        names.data,
        _binary_column(header_values),
    )


def ends_of_runs(runs: Iterable[tuple[int, int]], allocate: Callable[[int], Buffer] = bytearray) -> Buffer:
    """The offsets of an Arrow column of runs (rows, size), in each of which all rows have this size."""
    ends = array("i", (0,))
    total = 0
    for rows, size in runs:
        if rows < 0 or size < 0 or total + rows * size > _MAX_INT32:
            raise ValueError(f"{rows} rows of {size} bytes do not fit one column")
        ends.extend(range(total + size, total + rows * size + 1, size) if size else (total,) * rows)
        total += rows * size
    return bytearray(ends)


def data_of_runs(runs: Iterable[tuple[int, bytes]], allocate: Callable[[int], Buffer] = bytearray) -> Buffer:
    """The data of an Arrow column of runs (rows, content), in each of which all rows have this content."""
    data = bytearray()
    for rows, content in runs:
        if rows < 0:
            raise ValueError(f"{rows} rows of {len(content)} bytes do not fit one column")
        data += rows * content
    return data


def rows(body: Buffer, count: int, base_offset: int, base_timestamp: int) -> Iterator[_Row]:
    """Every record in turn. Varints of one byte are read in place, as they are nearly all there are."""
    data = body if type(body) is bytes else bytes(body)
    if not 0 <= count <= len(data) // SMALLEST_RECORD:
        raise CorruptBatch(f"{len(data)} bytes cannot hold {count} records")
    at = 0
    try:
        for index in range(count):
            length = data[at]
            at += 1
            if length > 0x7F:
                length, at = _longer(data, at, VARINT_BYTES)
            end = at + (length >> 1)
            if length & 1 or end > len(data):
                _refuse(index, "length beyond the end of the batch")
            # The attributes byte has no meaning yet; like Apache's, this reader takes any.
            delta = data[at + 1]
            at += 2
            if delta > 0x7F:
                delta, at = _longer(data, at, VARLONG_BYTES)
            timestamp_ms = base_timestamp + ((delta >> 1) ^ -(delta & 1))
            delta = data[at]
            at += 1
            if delta > 0x7F:
                delta, at = _longer(data, at, VARINT_BYTES)
            offset = base_offset + ((delta >> 1) ^ -(delta & 1))
            key, at = _field(data, at, end, index)
            value, at = _field(data, at, end, index)
            headers: tuple[Header, ...] = ()
            at += 1
            if data[at - 1]:
                headers, at = _headers(data, at - 1, end, index)
            if at != end:
                _refuse(index, "its fields do not add up to its length")
            if not (_MIN_INT64 <= offset <= _MAX_INT64 and _MIN_INT64 <= timestamp_ms <= _MAX_INT64):
                offset, timestamp_ms = _wrap(offset), _wrap(timestamp_ms)
            yield offset, timestamp_ms, key, value, headers
    except IndexError:
        raise CorruptBatch("records end too early") from None
    if at != len(data):
        raise CorruptBatch(f"{len(data) - at} bytes after the last record")


def _longer(data: bytes, at: int, max_bytes: int) -> tuple[int, int]:
    """A varint of two bytes or more, of which one has been read."""
    high = data[at]
    if high < 0x80:
        return data[at - 1] & 0x7F | high << 7, at + 1
    return decode_unsigned(data, at - 1, max_bytes)


def _field(data: bytes, at: int, end: int, index: int) -> tuple[bytes | None, int]:
    """A length and as many bytes, or -1 for null."""
    size = data[at]
    at += 1
    if size > 0x7F:
        size, at = _longer(data, at, VARINT_BYTES)
    if size & 1:
        if size > 1:
            _refuse(index, "field with a negative length")
        return None, at
    field_end = at + (size >> 1)
    if field_end > end:
        _refuse(index, "field beyond the end of the record")
    return data[at:field_end], field_end


def _headers(data: bytes, at: int, end: int, index: int) -> tuple[tuple[Header, ...], int]:
    number, at = decode_unsigned(data, at, VARINT_BYTES)
    # A header takes at least two bytes.
    if number & 1 or number > end - at:
        _refuse(index, "header count beyond the end of the record")
    headers: list[Header] = []
    for _ in range(number >> 1):
        name, at = _field(data, at, end, index)
        if name is None:
            _refuse(index, "header without a key")
        value, at = _field(data, at, end, index)
        # As Apache's clients read it: a broker stores any bytes, and what is not UTF-8 is replaced on the way out.
        headers.append((name.decode(errors="replace"), value))
    return tuple(headers), at


def _refuse(index: int, reason: str) -> NoReturn:
    raise CorruptBatch(f"record {index}: {reason}")


def _wrap(value: int) -> int:
    """A sum of two Java longs, which wraps around instead of growing."""
    if _MIN_INT64 <= value <= _MAX_INT64:
        return value
    return (value - _MIN_INT64) % (1 << 64) + _MIN_INT64


def _sized(field: Buffer | None) -> bytes:
    if field is None:
        return b"\x01"
    # A bytes() of a number would be that many zeros, so anything else must be a buffer.
    data = field if type(field) is bytes else bytes(memoryview(field))
    size = len(data)
    return (_SMALL_VARINTS[size] if size < 1024 else encode_varint(size)) + data


def _encode_headers(headers: Sequence[HeaderInput]) -> bytes:
    parts = [encode_varint(len(headers))]
    for name, value in headers:
        parts.append(_sized(name.encode()))
        parts.append(_sized(value))
    return b"".join(parts)


def _binary_column(fields: list[bytes | None]) -> BinaryColumn:
    null_count = fields.count(None)
    ends = array("i", (0,))
    end = 0
    for field in fields:
        if field is not None:
            end += len(field)
        ends.append(end)
    # Arrow numbers the bits of its bitmap from the lowest, so the bitmap is one little-endian number.
    bits = 0
    if null_count < len(fields):
        bits = int("".join("0" if field is None else "1" for field in reversed(fields)), 2)
    validity = bytearray(bits.to_bytes((len(fields) + 7) // 8, "little"))
    return BinaryColumn(null_count, validity, bytearray(ends), bytearray(b"".join(filter(None, fields))))
