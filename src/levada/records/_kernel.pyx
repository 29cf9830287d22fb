# cython: language_level=3, cdivision=True
"""The record kernel, compiled: checks, writes and reads record sections through typed pointers.

Its twin `pure.py` has the same functions with the same results; the tests hold the two together. Every read is
bounded by the record it belongs to, and no count is believed before the bytes for it are seen.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE, PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from levada.records._layout cimport Field, Parsed, number_size, parse, read_field, write_number

from levada.records.errors import CorruptBatch
from levada.records.record import (
    BATCH_HEADER_SIZE,
    BATCH_LENGTH_OVERHEAD,
    BATCH_MAGIC,
    BATCH_TRANSACTIONAL_BIT,
    NO_TIMESTAMP,
    SMALLEST_RECORD,
    BinaryColumn,
    Columns,
    ConsumerRecord,
    Record,
    Scan,
)

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        pass
    object PyType_GenericAlloc(PyTypeObject* cls, Py_ssize_t size)
    object PyUnicode_DecodeUTF8(const char* data, Py_ssize_t size, const char* errors)
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL
    void PyObject_GC_UnTrack(PyObject* instance)
    # The same functions on raw pointers: a bytes object may only be resized while nothing else refers to it.
    PyObject* new_bytes "PyBytes_FromStringAndSize"(const char* data, Py_ssize_t size) except NULL
    int resize_bytes "_PyBytes_Resize"(PyObject** instance, Py_ssize_t size) except -1
    uint8_t* start_of_bytes "(uint8_t *)PyBytes_AS_STRING"(PyObject* instance)

cdef extern from *:
    """
    #if PY_VERSION_HEX >= 0x030E0000
    #define FORGET_HASH(row) (((PyTupleObject *)(row))->ob_hash = -1)
    #else
    #define FORGET_HASH(row) ((void)0)
    #endif
    """
    # Tuples cache their hash since Python 3.14, and -1 stands for "not yet known".
    void forget_hash "FORGET_HASH"(object row) noexcept

cdef Py_ssize_t smallest_record = SMALLEST_RECORD
cdef int64_t no_timestamp = NO_TIMESTAMP
cdef Py_ssize_t header_size = BATCH_HEADER_SIZE
cdef Py_ssize_t length_overhead = BATCH_LENGTH_OVERHEAD
cdef uint8_t batch_magic = BATCH_MAGIC
cdef uint8_t transactional_bit = BATCH_TRANSACTIONAL_BIT
cdef object record_type = Record
cdef object consumer_record_type = ConsumerRecord
cdef object scan_type = Scan
cdef tuple no_headers = ()
# The first guess at a record's encoded size; the buffer doubles where it falls short.
cdef Py_ssize_t guessed_record_size = 128

# A section of so many bytes is read without the interpreter lock: that can take milliseconds. To get the lock back from
# a thread that computes takes as long, so that smaller ones are read with it.
cdef Py_ssize_t released_from = 1 << 20

cdef struct Output:
    PyObject* holder
    uint8_t* at
    uint8_t* end

cdef struct Scanned:
    int32_t first
    int32_t last
    bint is_consecutive
    int64_t min_timestamp
    int64_t max_timestamp
    Py_ssize_t max_index
    Py_ssize_t null_keys

cdef struct Bounds:
    int64_t base_timestamp
    int64_t earliest_ms
    int64_t latest_ms
    bint needs_keys

cdef struct Unfit:
    Py_ssize_t index
    int64_t timestamp_ms
    bint is_by_time

cdef struct Since:
    int64_t base_offset
    int64_t base_timestamp
    bint is_stamped
    int64_t timestamp_ms
    int64_t from_offset
    int64_t found_offset
    int64_t found_ms


def scan(body, Py_ssize_t count):
    """Check the structure of every record of an uncompressed section, and sum up what a broker asks of it."""
    cdef Py_buffer view
    cdef Scanned found
    cdef const uint8_t* start
    PyObject_GetBuffer(body, &view, PyBUF_SIMPLE)
    try:
        start = <const uint8_t*>view.buf
        if view.len < released_from:
            scan_records(start, start + view.len, count, &found)
        else:
            with nogil:
                scan_records(start, start + view.len, count, &found)
    finally:
        PyBuffer_Release(&view)
    return new_row(
        scan_type,
        (
            count,
            found.first,
            found.last,
            found.is_consecutive,
            found.min_timestamp,
            found.max_timestamp,
            found.max_index,
            found.null_keys,
        ),
    )


def find_unfit(
    body,
    Py_ssize_t count,
    int64_t base_timestamp,
    int64_t earliest_ms,
    int64_t latest_ms,
    bint needs_keys,
    Py_ssize_t limit,
):
    """The records that a topic refuses, up to a limit: (index, None) without a key, else (index, timestamp).

    The body is one that `scan` has passed.
    """
    cdef Py_buffer view
    cdef const uint8_t* start
    cdef Py_ssize_t found = 0, index
    cdef Bounds bounds = Bounds(base_timestamp, earliest_ms, latest_ms, needs_keys)
    cdef Unfit* unfit
    PyObject_GetBuffer(body, &view, PyBUF_SIMPLE)
    try:
        check_count(count, view.len)
        limit = min(limit, count)
        unfit = <Unfit*>PyMem_RawMalloc(limit * sizeof(Unfit))
        if unfit == NULL:
            raise MemoryError
        try:
            start = <const uint8_t*>view.buf
            if view.len < released_from:
                found = list_unfit(start, start + view.len, count, &bounds, unfit, limit)
            else:
                with nogil:
                    found = list_unfit(start, start + view.len, count, &bounds, unfit, limit)
            return [
                (unfit[index].index, unfit[index].timestamp_ms if unfit[index].is_by_time else None)
                for index in range(found)
            ]
        finally:
            PyMem_RawFree(unfit)
    finally:
        PyBuffer_Release(&view)


def find_since(
    body,
    Py_ssize_t count,
    int64_t base_offset,
    int64_t base_timestamp,
    log_append_timestamp,
    int64_t timestamp_ms,
    int64_t from_offset,
):
    """Offset and timestamp of the first record from an offset on that is not older; None if there is none."""
    cdef Py_buffer view
    cdef const uint8_t* start
    cdef Since since
    cdef bint is_found
    since.base_offset = base_offset
    since.base_timestamp = base_timestamp
    since.is_stamped = log_append_timestamp is not None
    since.found_ms = log_append_timestamp if since.is_stamped else 0
    since.timestamp_ms = timestamp_ms
    since.from_offset = from_offset
    PyObject_GetBuffer(body, &view, PyBUF_SIMPLE)
    try:
        start = <const uint8_t*>view.buf
        if view.len < released_from:
            is_found = search_since(start, start + view.len, count, &since)
        else:
            with nogil:
                is_found = search_since(start, start + view.len, count, &since)
    finally:
        PyBuffer_Release(&view)
    return (since.found_offset, since.found_ms) if is_found else None


cdef object read_plain(data, uint8_t allowed_attributes, bint has_any_producer):
    cdef Py_buffer view
    cdef const uint8_t* at
    cdef int64_t base, max_timestamp, low, high
    cdef int32_t last_offset_delta, count
    cdef uint32_t crc
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if view.len < header_size:
            return None
        at = <const uint8_t*>view.buf
        last_offset_delta = <int32_t>read_big_endian(at + 23, 4)
        count = <int32_t>read_big_endian(at + 57, 4)
        # Base offset, length, magic, attributes, producer id.
        if read_big_endian(at, 8) != 0 or <int32_t>read_big_endian(at + 8, 4) != view.len - length_overhead:
            return None
        if at[16] != batch_magic or at[21] != 0 or at[22] & ~allowed_attributes:
            return None
        if not has_any_producer and <int64_t>read_big_endian(at + 43, 8) != -1:
            return None
        if count <= 0 or count - 1 != last_offset_delta:
            return None
        crc = <uint32_t>read_big_endian(at + 17, 4)
        base = <int64_t>read_big_endian(at + 27, 8)
        max_timestamp = <int64_t>read_big_endian(at + 35, 8)
        try:
            scan_timestamps(at + header_size, at + view.len, count, &low, &high)
        except CorruptBatch:
            return None
    finally:
        PyBuffer_Release(&view)
    if (low < 0 and base < INT64_MIN - low) or (high > 0 and base > INT64_MAX - high) or (high < 0 and base < INT64_MIN - high):
        return None
    if base + high != max_timestamp or max_timestamp < no_timestamp:
        return None
    return crc, last_offset_delta, base + low, max_timestamp


def plain_batch(data):
    """CRC, last offset delta, least and greatest timestamp of the one batch that fills `data`; None for most.

    Plain is a batch of well formed records, not compressed, with nothing but defaults in its header, of no producer
    that must be remembered, and with the right maximum timestamp. The checksum is for the caller to compare.
    """
    return read_plain(data, 0, False)


def plain_batch_of_producer(data):
    """The same for a batch that may also be of a producer with state, and part of a transaction."""
    return read_plain(data, transactional_bit, True)


def extents(data):
    """The first offset in stored bytes, where each whole batch begins and the last one ends, and their last offsets.

    Ends at the first batch that is cut off, not of format 2, or not behind the one before it.
    """
    cdef Py_buffer view
    cdef const uint8_t* at
    cdef int64_t first = 0, last_offset = -1, base_offset
    cdef int32_t length, last_offset_delta
    cdef Py_ssize_t start = 0, end
    cdef list starts = [0], last_offsets = []
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        while start + header_size <= view.len:
            at = <const uint8_t*>view.buf + start
            base_offset = <int64_t>read_big_endian(at, 8)
            length = <int32_t>read_big_endian(at + 8, 4)
            last_offset_delta = <int32_t>read_big_endian(at + 23, 4)
            end = start + length + length_overhead
            if at[16] != batch_magic or end < start + header_size or end > view.len:
                break
            if base_offset <= last_offset or last_offset_delta < 0 or base_offset > INT64_MAX - last_offset_delta:
                break
            if start == 0:
                first = base_offset
            start = end
            last_offset = base_offset + last_offset_delta
            starts.append(end)
            last_offsets.append(last_offset)
    finally:
        PyBuffer_Release(&view)
    return first, starts, last_offsets


def encode(records, int64_t base_timestamp, offset_deltas=None):
    """The record section for these records, uncompressed; offset deltas are 0, 1, 2, ... unless given."""
    cdef Output out
    cdef Py_ssize_t index = 0, capacity = guessed_record_size * len(records)
    cdef int32_t offset_delta
    cdef int64_t timestamp_ms
    cdef tuple record
    if offset_deltas is not None and len(offset_deltas) != len(records):
        raise ValueError(f"{len(offset_deltas)} offset deltas for {len(records)} records")
    out.holder = new_bytes(NULL, capacity)
    out.at = start_of_bytes(out.holder)
    out.end = out.at + capacity
    try:
        for item in records:
            record = <tuple>item if isinstance(item, tuple) else tuple(item)
            if PyTuple_GET_SIZE(record) != 4:
                raise ValueError(f"a record has 4 fields, not {len(record)}")
            timestamp_ms = <object>PyTuple_GET_ITEM(record, 0)
            offset_delta = <int32_t>index if offset_deltas is None else offset_deltas[index]
            write_record(
                &out,
                <int64_t>(<uint64_t>timestamp_ms - <uint64_t>base_timestamp),
                offset_delta,
                plain_bytes(<object>PyTuple_GET_ITEM(record, 1)),
                plain_bytes(<object>PyTuple_GET_ITEM(record, 2)),
                plain_headers(<object>PyTuple_GET_ITEM(record, 3)),
            )
            index += 1
        resize_bytes(&out.holder, out.at - start_of_bytes(out.holder))
        return <object>out.holder
    finally:
        Py_XDECREF(out.holder)


def decode(body, Py_ssize_t count, int64_t base_offset, int64_t base_timestamp, log_append_timestamp):
    """The records of an uncompressed section; all carry the append time if there is one."""
    return read_records(body, count, base_offset, base_timestamp, log_append_timestamp, None)


def decode_for_consumer(
    body,
    Py_ssize_t count,
    int64_t base_offset,
    int64_t base_timestamp,
    log_append_timestamp,
    str topic not None,
    int32_t partition,
    leader_epoch,
):
    """The same records as a consumer hands them out, each with the partition that it came from."""
    cdef object timestamp_type = 0 if log_append_timestamp is None else 1
    cdef tuple origin = (topic, partition, timestamp_type, leader_epoch)
    return read_records(body, count, base_offset, base_timestamp, log_append_timestamp, origin)


def unfilled(Py_ssize_t size):
    """So many bytes of memory as it is found, for a caller that fills all of it."""
    return PyByteArray_FromStringAndSize(NULL, size)


def skip_below(body, Py_ssize_t count, int64_t offset_delta):
    """How many records at the start of an uncompressed section have a smaller offset delta, and their bytes."""
    cdef Py_buffer view
    cdef Parsed record
    cdef const uint8_t* at
    cdef const uint8_t* next_at
    cdef const uint8_t* end
    cdef Py_ssize_t skipped = 0
    PyObject_GetBuffer(body, &view, PyBUF_SIMPLE)
    try:
        check_count(count, view.len)
        at = <const uint8_t*>view.buf
        end = at + view.len
        while skipped < count:
            next_at = next_record(at, end, skipped, &record)
            if record.header_count:
                check_headers(&record, skipped)
            if record.offset_delta >= offset_delta:
                break
            skipped += 1
            at = next_at
        if skipped == count:
            check_end(at, end)
        return skipped, at - <const uint8_t*>view.buf
    finally:
        PyBuffer_Release(&view)


def decode_columns(parts, allocate=unfilled):
    """The records of several uncompressed sections as one set of Arrow buffers, in memory that `allocate` gives."""
    cdef Py_ssize_t size = 0, rows = 0, count
    parts = tuple(parts)
    for body, count, _, _, _ in parts:
        check_count(count, len(body))
        size += len(body)
        rows += count
    if size > INT32_MAX:
        raise ValueError("more than 2 GiB of records do not fit one set of columns")
    cdef ColumnSet columns = ColumnSet(allocate, rows, size)
    for body, count, base_offset, base_timestamp, log_append_timestamp in parts:
        columns.append_part(
            body,
            count,
            base_offset,
            base_timestamp,
            log_append_timestamp is not None,
            0 if log_append_timestamp is None else log_append_timestamp,
        )
    return columns.finish()


def ends_of_runs(runs, allocate=unfilled):
    """The offsets of an Arrow column of runs (rows, size), in each of which all rows have this size."""
    cdef Py_ssize_t rows, size, row, at = 0, total = 0, total_rows = 0
    cdef Room room
    cdef int32_t* ends
    runs = tuple(runs)
    for rows, size in runs:
        if rows < 0 or size < 0 or (size and rows > INT32_MAX // size) or rows > INT32_MAX - total_rows:
            raise ValueError(f"{rows} rows of {size} bytes do not fit one column")
        total_rows += rows
        total += rows * size
        if total > INT32_MAX:
            raise ValueError("more than 2 GiB do not fit one column")
    room = Room(allocate, 4 * (total_rows + 1))
    ends = <int32_t*>room.data
    ends[0] = 0
    total = 0
    for rows, size in runs:
        for row in range(1, rows + 1):
            ends[at + row] = <int32_t>(total + row * size)
        at += rows
        total += rows * size
    return room.finish(4 * (total_rows + 1))


def data_of_runs(runs, allocate=unfilled):
    """The data of an Arrow column of runs (rows, content), in each of which all rows have this content."""
    cdef Py_ssize_t rows, size, used, total = 0
    cdef Room room
    cdef uint8_t* start
    cdef bytes content
    runs = tuple(runs)
    for rows, content in runs:
        size = len(content)
        if rows < 0 or (size and rows > (INT64_MAX - total) // size):
            raise ValueError(f"{rows} rows of {size} bytes do not fit one column")
        total += rows * size
    room = Room(allocate, total)
    start = room.data
    for rows, content in runs:
        size = len(content) * rows
        used = min(<Py_ssize_t>len(content), size)
        memcpy(start, <const char*>content, used)
        while used < size:
            # What is there is doubled, so that few calls fill it.
            memcpy(start + used, start, min(used, size - used))
            used += min(used, size - used)
        start += size
    return room.finish(total)


# Reading one record


cdef inline const uint8_t* next_record(
    const uint8_t* at, const uint8_t* end, Py_ssize_t index, Parsed* record
) except NULL nogil:
    """Parse the record at a position, all but the inside of its headers, and return the position after it."""
    cdef const char* fault = parse(at, end, record)
    if fault != NULL:
        refuse(index, fault)
    return record.end


cdef inline const uint8_t* next_header(
    const uint8_t* at, const uint8_t* end, Py_ssize_t index, Field* name, Field* value
) except NULL nogil:
    at = read_field(at, end, name)
    if at == NULL or name.size < 0:
        refuse(index, "bad header key")
    at = read_field(at, end, value)
    if at == NULL:
        refuse(index, "header value beyond the end of the record")
    return at


cdef int scan_records(const uint8_t* at, const uint8_t* end, Py_ssize_t count, Scanned* found) except -1 nogil:
    cdef Parsed record
    cdef Py_ssize_t index
    found[0] = Scanned(0, -1, True, 0, 0, -1, 0)
    check_count(count, end - at)
    for index in range(count):
        at = next_record(at, end, index, &record)
        if index == 0:
            found.first = record.offset_delta
            found.min_timestamp = record.timestamp_delta
        found.last = record.offset_delta
        if record.offset_delta != index:
            found.is_consecutive = False
        if record.timestamp_delta > found.max_timestamp or found.max_index < 0:
            found.max_timestamp = record.timestamp_delta
            found.max_index = index
        if record.timestamp_delta < found.min_timestamp:
            found.min_timestamp = record.timestamp_delta
        if record.key.size < 0:
            found.null_keys += 1
        if record.header_count:
            check_headers(&record, index)
    return check_end(at, end)


cdef int scan_timestamps(
    const uint8_t* at, const uint8_t* end, Py_ssize_t count, int64_t* low, int64_t* high
) except -1:
    """Check the structure of every record, and find the least and the greatest timestamp delta."""
    cdef Parsed record
    cdef Py_ssize_t index
    low[0] = high[0] = 0
    check_count(count, end - at)
    for index in range(count):
        at = next_record(at, end, index, &record)
        if index == 0:
            low[0] = high[0] = record.timestamp_delta
        elif record.timestamp_delta > high[0]:
            high[0] = record.timestamp_delta
        elif record.timestamp_delta < low[0]:
            low[0] = record.timestamp_delta
        if record.header_count:
            check_headers(&record, index)
    return check_end(at, end)


cdef Py_ssize_t list_unfit(
    const uint8_t* at, const uint8_t* end, Py_ssize_t count, Bounds* bounds, Unfit* unfit, Py_ssize_t limit
) except -1 nogil:
    """Write down the records that do not keep to bounds, and say how many there are, up to a limit."""
    cdef Parsed record
    cdef Py_ssize_t index, found = 0
    cdef int64_t timestamp_ms
    for index in range(count):
        if found >= limit:
            break
        at = next_record(at, end, index, &record)
        timestamp_ms = add(bounds.base_timestamp, record.timestamp_delta)
        if bounds.needs_keys and record.key.size < 0:
            unfit[found] = Unfit(index, timestamp_ms, False)
            found += 1
        elif timestamp_ms != no_timestamp and not bounds.earliest_ms <= timestamp_ms <= bounds.latest_ms:
            unfit[found] = Unfit(index, timestamp_ms, True)
            found += 1
    return found


cdef int search_since(const uint8_t* at, const uint8_t* end, Py_ssize_t count, Since* since) except -1 nogil:
    """Whether there is such a record."""
    cdef Parsed record
    cdef Py_ssize_t index
    check_count(count, end - at)
    for index in range(count):
        at = next_record(at, end, index, &record)
        since.found_offset = add(since.base_offset, record.offset_delta)
        if not since.is_stamped:
            since.found_ms = add(since.base_timestamp, record.timestamp_delta)
        if since.found_ms >= since.timestamp_ms and since.found_offset >= since.from_offset:
            return True
    return False


cdef inline int check_count(Py_ssize_t count, Py_ssize_t size) except -1 nogil:
    if count < 0 or count > size // smallest_record:
        refuse_count(count, size)
    return 0


cdef inline int check_end(const uint8_t* at, const uint8_t* end) except -1 nogil:
    if at != end:
        refuse_end(end - at)
    return 0


cdef int check_headers(Parsed* record, Py_ssize_t index) except -1 nogil:
    cdef const uint8_t* at = record.headers
    cdef Field name, value
    for _ in range(record.header_count):
        at = next_header(at, record.end, index, &name, &value)
    return check_headers_end(at, record, index)


cdef int check_headers_end(const uint8_t* at, Parsed* record, Py_ssize_t index) except -1 nogil:
    if at != record.end:
        refuse(index, "its fields do not add up to its length")
    return 0


cdef bint is_ascii(Field* name) noexcept:
    cdef int32_t position
    for position in range(name.size):
        if name.data[position] > 0x7F:
            return False
    return True


cdef str decode_name(Field* name):
    """As Apache's clients read it: a broker stores any bytes, and what is not UTF-8 is replaced on the way out."""
    return PyUnicode_DecodeUTF8(<const char*>name.data, name.size, "replace")


cdef int refuse(Py_ssize_t index, const char* reason) except -1 with gil:
    raise CorruptBatch(f"record {index}: {reason.decode('ascii')}")


cdef int refuse_count(Py_ssize_t count, Py_ssize_t size) except -1 with gil:
    raise CorruptBatch(f"{size} bytes cannot hold {count} records")


cdef int refuse_end(Py_ssize_t left) except -1 with gil:
    raise CorruptBatch(f"{left} bytes after the last record")


# Records as objects


cdef list read_records(
    object body,
    Py_ssize_t count,
    int64_t base_offset,
    int64_t base_timestamp,
    object log_append_timestamp,
    tuple origin,
):
    """Every record as a Record, or as a ConsumerRecord if its origin is given."""
    cdef Py_buffer view
    cdef Parsed record
    cdef const uint8_t* at
    cdef const uint8_t* end
    cdef Py_ssize_t index
    cdef int64_t timestamp_ms, last_timestamp_ms = 0
    cdef list records
    cdef object timestamp = log_append_timestamp
    PyObject_GetBuffer(body, &view, PyBUF_SIMPLE)
    try:
        check_count(count, view.len)
        at = <const uint8_t*>view.buf
        end = at + view.len
        records = PyList_New(count)
        for index in range(count):
            at = next_record(at, end, index, &record)
            if log_append_timestamp is None:
                timestamp_ms = add(base_timestamp, record.timestamp_delta)
                # Neighbours often share their millisecond, and then the number object too.
                if timestamp is None or timestamp_ms != last_timestamp_ms:
                    timestamp = timestamp_ms
                    last_timestamp_ms = timestamp_ms
            row = new_record(
                add(base_offset, record.offset_delta),
                timestamp,
                field_object(&record.key),
                field_object(&record.value),
                read_headers(&record, index) if record.header_count else no_headers,
                origin,
            )
            Py_INCREF(row)
            PyList_SET_ITEM(records, index, row)
        check_end(at, end)
    finally:
        PyBuffer_Release(&view)
    return records


cdef object new_row(object row_type, tuple fields):
    """A NamedTuple of these fields; the constructor that Python generates takes several times as long."""
    cdef Py_ssize_t position, size = PyTuple_GET_SIZE(fields)
    cdef object row = PyType_GenericAlloc(<PyTypeObject*>row_type, size)
    forget_hash(row)
    for position in range(size):
        set_item(row, position, <object>PyTuple_GET_ITEM(fields, position))
    return row


cdef inline object new_record(
    int64_t offset, object timestamp, object key, object value, tuple headers, tuple origin
):
    cdef object row, number = offset
    if origin is None:
        row = PyType_GenericAlloc(<PyTypeObject*>record_type, 5)
        forget_hash(row)
        set_item(row, 0, number)
        set_item(row, 1, timestamp)
        set_item(row, 2, key)
        set_item(row, 3, value)
        set_item(row, 4, headers)
    else:
        row = PyType_GenericAlloc(<PyTypeObject*>consumer_record_type, 9)
        forget_hash(row)
        set_item(row, 0, <object>PyTuple_GET_ITEM(origin, 0))
        set_item(row, 1, <object>PyTuple_GET_ITEM(origin, 1))
        set_item(row, 2, number)
        set_item(row, 3, timestamp)
        set_item(row, 4, <object>PyTuple_GET_ITEM(origin, 2))
        set_item(row, 5, key)
        set_item(row, 6, value)
        set_item(row, 7, headers)
        set_item(row, 8, <object>PyTuple_GET_ITEM(origin, 3))
    # A record holds only bytes, numbers and text and cannot be part of a cycle: keep it off the collector's list.
    PyObject_GC_UnTrack(<PyObject*>row)
    return row


cdef tuple read_headers(Parsed* record, Py_ssize_t index):
    cdef const uint8_t* at = record.headers
    cdef tuple pair, headers = PyTuple_New(record.header_count)
    cdef Field name, value
    cdef int32_t position
    for position in range(record.header_count):
        at = next_header(at, record.end, index, &name, &value)
        pair = (decode_name(&name), field_object(&value))
        PyObject_GC_UnTrack(<PyObject*>pair)
        set_item(headers, position, pair)
    check_headers_end(at, record, index)
    PyObject_GC_UnTrack(<PyObject*>headers)
    return headers


cdef inline object field_object(Field* field):
    if field.size < 0:
        return None
    return PyBytes_FromStringAndSize(<const char*>field.data, field.size)


cdef inline void set_item(object row, Py_ssize_t position, object item) noexcept:
    Py_INCREF(item)
    PyTuple_SET_ITEM(row, position, item)


cdef inline uint64_t read_big_endian(const uint8_t* at, Py_ssize_t size) noexcept nogil:
    cdef uint64_t number = 0
    cdef Py_ssize_t index
    for index in range(size):
        number = number << 8 | at[index]
    return number


cdef inline int64_t add(int64_t base, int64_t delta) noexcept nogil:
    """As Java adds longs: wrapping around, which C leaves undefined for signed numbers."""
    return <int64_t>(<uint64_t>base + <uint64_t>delta)


# Writing one record


cdef int write_record(
    Output* out, int64_t timestamp_delta, int32_t offset_delta, bytes key, bytes value, tuple headers
) except -1:
    cdef Py_ssize_t size = 1 + number_size(timestamp_delta) + number_size(offset_delta)
    size += field_size(key) + field_size(value) + headers_size(headers)
    if size > INT32_MAX:
        raise OverflowError(f"a record of {size} bytes does not fit 31 bits")
    if out.end - out.at < size + 5:
        grow(out, size + 5)
    cdef uint8_t* at = write_number(out.at, size)
    at[0] = 0
    at = write_number(at + 1, timestamp_delta)
    at = write_number(at, offset_delta)
    at = write_field(at, key)
    at = write_field(at, value)
    if PyTuple_GET_SIZE(headers) == 0:
        at[0] = 0
        out.at = at + 1
        return 0
    at = write_number(at, PyTuple_GET_SIZE(headers))
    cdef const char* name
    cdef Py_ssize_t name_size
    for pair in headers:
        name = PyUnicode_AsUTF8AndSize(<object>PyTuple_GET_ITEM(pair, 0), &name_size)
        at = write_number(at, name_size)
        memcpy(at, name, name_size)
        at = write_field(at + name_size, <bytes>PyTuple_GET_ITEM(pair, 1))
    out.at = at
    return 0


cdef int grow(Output* out, Py_ssize_t needed) except -1:
    cdef Py_ssize_t used = out.at - start_of_bytes(out.holder)
    cdef Py_ssize_t capacity = 2 * (used + needed)
    resize_bytes(&out.holder, capacity)
    out.at = start_of_bytes(out.holder) + used
    out.end = start_of_bytes(out.holder) + capacity
    return 0


cdef inline bytes plain_bytes(object field):
    if field is None or type(field) is bytes:
        return <bytes>field
    # A bytes() of a number would be that many zeros, so anything else must be a buffer.
    return bytes(memoryview(field))


cdef inline tuple plain_headers(object headers):
    """The headers with every key a str and every value bytes or None, so that two passes see the same."""
    if type(headers) is tuple and PyTuple_GET_SIZE(headers) == 0:
        return <tuple>headers
    return checked_headers(headers)


cdef tuple checked_headers(object headers):
    cdef list pairs = []
    for name, value in headers:
        if not isinstance(name, str):
            raise TypeError(f"a header key is text, not {type(name).__name__}")
        pairs.append((name, plain_bytes(value)))
    return tuple(pairs)


cdef Py_ssize_t headers_size(tuple headers) except -1:
    cdef Py_ssize_t name_size, size = number_size(PyTuple_GET_SIZE(headers))
    for pair in headers:
        PyUnicode_AsUTF8AndSize(<object>PyTuple_GET_ITEM(pair, 0), &name_size)
        size += number_size(name_size) + name_size + field_size(<bytes>PyTuple_GET_ITEM(pair, 1))
    return size


cdef inline Py_ssize_t field_size(bytes field) noexcept:
    if field is None:
        return 1
    return number_size(PyBytes_GET_SIZE(field)) + PyBytes_GET_SIZE(field)


cdef inline uint8_t* write_field(uint8_t* at, bytes field) noexcept:
    if field is None:
        at[0] = 1
        return at + 1
    at = write_number(at, PyBytes_GET_SIZE(field))
    memcpy(at, PyBytes_AS_STRING(field), PyBytes_GET_SIZE(field))
    return at + PyBytes_GET_SIZE(field)


# Records as Arrow columns


@cython.final
cdef class Room:
    """Memory that the caller's `allocate` makes, such as Arrow's, written to by its address."""

    cdef object allocate, holder
    cdef Py_buffer view
    cdef uint8_t* data

    def __cinit__(self, allocate, Py_ssize_t size):
        self.allocate = allocate
        self.holder = allocate(size)
        PyObject_GetBuffer(self.holder, &self.view, PyBUF_WRITABLE)
        if self.view.len < size:
            raise ValueError(f"{self.view.len} bytes were allocated where {size} were asked for")
        self.data = <uint8_t*>self.view.buf

    def __dealloc__(self):
        PyBuffer_Release(&self.view)

    cdef Room grown(self, Py_ssize_t used, Py_ssize_t size):
        """What was used of it, in more room."""
        cdef Room room = Room(self.allocate, size)
        memcpy(room.data, self.data, used)
        return room

    cdef object finish(self, Py_ssize_t used):
        return memoryview(self.holder)[:used]


@cython.final
cdef class Column:
    """A nullable column of byte strings that grows row by row in Arrow's layout."""

    cdef Room validity_room, ends_room, data_room
    cdef uint8_t* validity
    cdef int32_t* ends
    cdef uint8_t* data
    cdef Py_ssize_t rows, row_capacity, used, data_capacity, null_count

    def __cinit__(self, allocate, Py_ssize_t row_capacity, Py_ssize_t data_capacity):
        cdef Py_ssize_t validity_bytes = (row_capacity + 7) // 8
        self.validity_room = Room(allocate, validity_bytes)
        self.ends_room = Room(allocate, 4 * (row_capacity + 1))
        self.data_room = Room(allocate, data_capacity)
        self.row_capacity = row_capacity
        self.data_capacity = data_capacity
        self.point()
        memset(self.validity, 0, validity_bytes)
        self.ends[0] = 0

    cdef void point(self) noexcept:
        self.validity = self.validity_room.data
        self.ends = <int32_t*>self.ends_room.data
        self.data = self.data_room.data

    cdef inline int append(self, Field* field) except -1:
        if self.rows == self.row_capacity:
            self.grow_rows()
        if field.size < 0:
            self.null_count += 1
        else:
            if field.size > self.data_capacity - self.used:
                self.grow_data(field.size)
            memcpy(self.data + self.used, field.data, field.size)
            self.used += field.size
            self.validity[self.rows >> 3] |= <uint8_t>(1 << (self.rows & 7))
        self.rows += 1
        self.ends[self.rows] = <int32_t>self.used
        return 0

    cdef int grow_rows(self) except -1:
        cdef Py_ssize_t old_bytes = (self.row_capacity + 7) // 8
        self.row_capacity = 2 * self.row_capacity + 8
        cdef Py_ssize_t new_bytes = (self.row_capacity + 7) // 8
        self.validity_room = self.validity_room.grown(old_bytes, new_bytes)
        self.ends_room = self.ends_room.grown(4 * (self.rows + 1), 4 * (self.row_capacity + 1))
        self.point()
        memset(self.validity + old_bytes, 0, new_bytes - old_bytes)
        return 0

    cdef int grow_data(self, Py_ssize_t needed) except -1:
        self.data_capacity = 2 * (self.used + needed)
        self.data_room = self.data_room.grown(self.used, self.data_capacity)
        self.point()
        return 0

    cdef object finish(self):
        return BinaryColumn(
            self.null_count,
            self.validity_room.finish((self.rows + 7) // 8),
            self.ends_room.finish(4 * (self.rows + 1)),
            self.data_room.finish(self.used),
        )


@cython.final
cdef class ColumnSet:
    """All columns of a fixed number of records; headers come as they come."""

    cdef Room offsets_room, timestamps_room, header_ends_room
    cdef int64_t* offsets
    cdef int64_t* timestamps
    cdef int32_t* header_ends
    cdef Column keys, values, header_keys, header_values
    cdef Py_ssize_t row, rows

    def __cinit__(self, allocate, Py_ssize_t rows, Py_ssize_t size):
        self.offsets_room = Room(allocate, 8 * rows)
        self.timestamps_room = Room(allocate, 8 * rows)
        self.header_ends_room = Room(allocate, 4 * (rows + 1))
        self.offsets = <int64_t*>self.offsets_room.data
        self.timestamps = <int64_t*>self.timestamps_room.data
        self.header_ends = <int32_t*>self.header_ends_room.data
        self.header_ends[0] = 0
        self.rows = rows
        # Values are most of a batch, so room for all of it is nearly exact; keys are short.
        self.keys = Column(allocate, rows, 16 * rows)
        self.values = Column(allocate, rows, size)
        self.header_keys = Column(allocate, 0, 0)
        self.header_values = Column(allocate, 0, 0)

    cdef int append_part(
        self,
        object body,
        Py_ssize_t count,
        int64_t base_offset,
        int64_t base_timestamp,
        bint has_append_time,
        int64_t append_time,
    ) except -1:
        cdef Py_buffer view
        cdef Parsed record
        cdef const uint8_t* at
        cdef const uint8_t* end
        cdef Py_ssize_t index, row = self.row
        PyObject_GetBuffer(body, &view, PyBUF_SIMPLE)
        try:
            at = <const uint8_t*>view.buf
            end = at + view.len
            for index in range(count):
                at = next_record(at, end, index, &record)
                self.offsets[row] = add(base_offset, record.offset_delta)
                self.timestamps[row] = append_time if has_append_time else add(base_timestamp, record.timestamp_delta)
                self.keys.append(&record.key)
                self.values.append(&record.value)
                if record.header_count:
                    self.append_headers(&record, index)
                row += 1
                self.header_ends[row] = <int32_t>self.header_keys.rows
            check_end(at, end)
        finally:
            PyBuffer_Release(&view)
        self.row = row
        return 0

    cdef int append_headers(self, Parsed* record, Py_ssize_t index) except -1:
        cdef const uint8_t* at = record.headers
        cdef Field name, value
        cdef bytes text
        for _ in range(record.header_count):
            at = next_header(at, record.end, index, &name, &value)
            if not is_ascii(&name):
                # Arrow's text must be UTF-8; most often these are the same bytes again.
                text = decode_name(&name).encode()
                name.data = <const uint8_t*>PyBytes_AS_STRING(text)
                name.size = <int32_t>PyBytes_GET_SIZE(text)
            self.header_keys.append(&name)
            self.header_values.append(&value)
        return check_headers_end(at, record, index)

    cdef object finish(self):
        header_keys = self.header_keys.finish()
        return Columns(
            self.row,
            self.offsets_room.finish(8 * self.row),
            self.timestamps_room.finish(8 * self.row),
            self.keys.finish(),
            self.values.finish(),
            self.header_keys.rows,
            self.header_ends_room.finish(4 * (self.row + 1)),
            header_keys.offsets,
            header_keys.data,
            self.header_values.finish(),
        )
