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


# What these call, by subject

include "_kernel_reading.pxi"
include "_kernel_writing.pxi"
include "_kernel_columns.pxi"
