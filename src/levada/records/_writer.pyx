# cython: language_level=3, cdivision=True
"""The batch writer, compiled: encodes records as they come, one by one, from lists, or from Arrow's columns.

Its twin `pure_writer.py` has the same classes and functions with the same results; the tests hold the two together.
Whatever can run Python code, such as asking an object for its buffer, happens before a batch is touched.
"""

cimport cython
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.ref cimport PyObject
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from levada.records._layout cimport number_size, write_number

from array import array

from levada.records.batch import TRANSACTIONAL_BIT
from levada.records.compression import Codec
from levada.records.record import BATCH_HEADER_SIZE, NO_TIMESTAMP
from levada.records.sealing import close_batch, read_back, write_header

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL
    # A list or a tuple, by position; what they return is borrowed.
    Py_ssize_t sequence_size "PySequence_Fast_GET_SIZE"(object sequence)
    PyObject* sequence_item "PySequence_Fast_GET_ITEM"(object sequence, Py_ssize_t position)
    ctypedef struct PyByteArrayObject:
        Py_ssize_t ob_exports

cdef extern from *:
    """
    #define NO_VIEW(view) ((view)->obj = NULL)
    #define IS_HELD(view) ((view)->obj != NULL)
    """
    # A view of nothing yet, which may be released like any other.
    void no_view "NO_VIEW"(Py_buffer* view) noexcept
    bint is_held "IS_HELD"(Py_buffer* view) noexcept

cdef Py_ssize_t header_size = BATCH_HEADER_SIZE
cdef int64_t no_timestamp = NO_TIMESTAMP
cdef int transactional_bit = TRANSACTIONAL_BIT
cdef object no_codec = Codec.NONE
cdef tuple no_headers = ()
# What a batch takes at first; it doubles until it has all that it may.
cdef Py_ssize_t first_room = 1024
# Far beyond what memory holds, so that sums and products of it fit 64 bits.
cdef Py_ssize_t most_rows = <Py_ssize_t>1 << 56

cdef struct Piece:
    const uint8_t* data
    Py_ssize_t size  # -1 is null


@cython.final
cdef class BatchWriter:
    """A batch that is being filled; its first 61 bytes are kept for the header."""

    cdef bytearray holder
    cdef uint8_t* start
    cdef Py_ssize_t room, capacity
    cdef bint is_sealed
    cdef int codec
    cdef readonly Py_ssize_t count
    """The records so far."""
    cdef readonly Py_ssize_t size
    """Bytes so far, the header's among them, before compression."""
    cdef readonly int64_t base_timestamp
    """The first record's, in ms."""
    cdef readonly int64_t max_timestamp

    def __cinit__(self, Py_ssize_t capacity, bytearray memory=None):
        """`memory` is what another writer of this capacity gave back."""
        if not 0 < capacity <= INT32_MAX:
            raise ValueError(f"a batch has up to {INT32_MAX} bytes, not {capacity}")
        self.capacity = capacity
        if memory is None:
            self.room = min(max(capacity, header_size), first_room)
            self.holder = PyByteArray_FromStringAndSize(NULL, self.room)
        else:
            self.room = max(capacity, header_size)
            PyByteArray_Resize(memory, self.room)
            self.holder = memory
        self.start = <uint8_t*>PyByteArray_AS_STRING(self.holder)
        self.size = header_size
        self.base_timestamp = self.max_timestamp = no_timestamp

    def append(self, int64_t timestamp_ms, key, value, headers=()):
        """The index of the new record, or -1 and nothing changed when the batch is sealed or has no room for it.

        An empty batch takes a record of any size.
        """
        cdef Py_buffer key_view, value_view
        cdef Piece key_piece, value_piece
        cdef uint8_t* at
        cdef tuple pairs = plain_headers(headers)
        no_view(&key_view)
        no_view(&value_view)
        try:
            take(<PyObject*>key, &key_view, &key_piece)
            take(<PyObject*>value, &value_view, &value_piece)
            at = self.place(timestamp_ms, &key_piece, &value_piece, headers_size(pairs))
            if at == NULL:
                return -1
            write_headers(at, pairs)
            return self.count - 1
        finally:
            PyBuffer_Release(&key_view)
            PyBuffer_Release(&value_view)

    def stop(self):
        """Take no more records."""
        self.room = self.capacity = self.size

    def seal(
        self,
        *,
        int64_t producer_id,
        int32_t producer_epoch,
        int32_t base_sequence,
        bint is_transactional,
        codec=no_codec,
        level=None,
    ):
        """The whole batch as it goes on the wire; from now on it takes no more records.

        Another call writes another header, say after an epoch was bumped, into the same memory: views from before see
        it too. The records stay as the first call has compressed them.
        """
        if self.count == 0:
            raise ValueError("a batch without records cannot be sealed")
        if not self.is_sealed:
            self.close(codec, level)
        return write_header(
            self.holder,
            self.codec | (transactional_bit if is_transactional else 0),
            self.count,
            self.base_timestamp,
            self.max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
        )

    def give_back(self):
        """The memory of a batch that will not be sent again, for another; None if a view of it is left.

        New memory costs about as much to touch for the first time as it costs to send what is written there.
        """
        cdef bytearray memory = self.holder
        if not self.is_sealed or self.codec or (<PyByteArrayObject*>memory).ob_exports:
            return None
        self.holder = bytearray()
        return memory

    def records(self):
        """The records that were written, read back: for a batch that turned out too large and is split."""
        cdef Py_ssize_t end = len(self.holder) if self.is_sealed else self.size
        with memoryview(self.holder) as view:
            return read_back(
                view[header_size:end], Codec(self.codec), self.size, self.count, self.base_timestamp
            )

    cdef inline uint8_t* place(
        self, int64_t timestamp_ms, Piece* key, Piece* value, Py_ssize_t headers_size
    ) except? NULL:
        """Write a record all but its headers, and say where these go; NULL if there is no room."""
        cdef int64_t delta = 0
        if self.count:
            delta = <int64_t>(<uint64_t>timestamp_ms - <uint64_t>self.base_timestamp)
        cdef Py_ssize_t size = 1 + number_size(delta) + number_size(self.count) + headers_size
        size += piece_size(key) + piece_size(value)
        cdef Py_ssize_t needed = number_size(size) + size
        if needed > self.room - self.size and not self.grow(needed):
            return NULL
        cdef uint8_t* at = write_number(self.start + self.size, size)
        at[0] = 0
        at = write_number(at + 1, delta)
        at = write_number(at, self.count)
        at = write_piece(at, key)
        at = write_piece(at, value)
        if self.count == 0:
            self.base_timestamp = self.max_timestamp = timestamp_ms
        elif timestamp_ms > self.max_timestamp:
            self.max_timestamp = timestamp_ms
        self.count += 1
        self.size += needed
        return at

    cdef int grow(self, Py_ssize_t needed) except -1:
        """Whether there is room for as many bytes now."""
        cdef Py_ssize_t wanted = self.size + needed
        if self.is_sealed or (self.count and wanted > self.capacity):
            return False
        if wanted > INT32_MAX:
            raise OverflowError(f"a batch of {wanted} bytes does not fit 31 bits")
        wanted = max(wanted, min(2 * self.room, self.capacity))
        PyByteArray_Resize(self.holder, wanted)
        self.start = <uint8_t*>PyByteArray_AS_STRING(self.holder)
        self.room = wanted
        return True

    cdef int close(self, object codec, object level) except -1:
        # Before anything that lets another thread in, such as compression.
        self.is_sealed = True
        self.room = self.size
        try:
            PyByteArray_Resize(self.holder, self.size)
            self.start = <uint8_t*>PyByteArray_AS_STRING(self.holder)
            self.holder = close_batch(self.holder, codec, level)
            self.start = NULL
            self.codec = codec
        except:
            self.is_sealed = False
            raise
        return 0


def write_lists(
    writers, partitions, int64_t timestamp_ms, keys, values, Py_ssize_t start, Py_ssize_t stop
):
    """Append the rows from start on, each to its partition's writer, and say which is the first that was not.

    That is `stop`, or a row whose writer is None or full. Without partitions, all rows are for the first writer. A row
    that cannot be written raises where it is the first; where others come before it, these are written and it is told.
    """
    cdef tuple targets = checked_writers(writers)
    cdef Py_buffer view, key_view, value_view
    cdef Piece key, value
    cdef BatchWriter writer
    cdef Py_ssize_t row = start
    cdef uint8_t* at
    cdef bint has_keys = keys is not None
    no_view(&view)
    no_view(&key_view)
    no_view(&value_view)
    key.data = NULL
    key.size = -1
    check_sequence(values)
    check_rows(start, stop, sequence_size(values))
    if has_keys:
        check_sequence(keys)
        check_rows(start, stop, sequence_size(keys))
    try:
        take_partitions(partitions, &view, start, stop)
        while row < stop:
            writer = writer_of(targets, &view, row)
            if writer is None:
                break
            # Python code that runs when a buffer is asked for could have shortened the lists.
            if has_keys:
                if row >= sequence_size(keys):
                    break
                # Held for as long as the value may run code, too.
                key_object = <object>sequence_item(keys, row)
                take(<PyObject*>key_object, &key_view, &key)
            if row >= sequence_size(values):
                break
            take(sequence_item(values, row), &value_view, &value)
            at = writer.place(timestamp_ms, &key, &value, 1)
            if at == NULL:
                break
            at[0] = 0
            if is_held(&key_view):
                PyBuffer_Release(&key_view)
            if is_held(&value_view):
                PyBuffer_Release(&value_view)
            row += 1
    except Exception:
        if row == start:
            raise
    finally:
        PyBuffer_Release(&key_view)
        PyBuffer_Release(&value_view)
        PyBuffer_Release(&view)
    return row


def write_columns(writers, partitions, RecordColumns columns not None, Py_ssize_t start, Py_ssize_t stop):
    """The same for rows of columns, with the times and headers that these have."""
    cdef tuple targets = checked_writers(writers)
    cdef Py_buffer view
    cdef Piece key, value
    cdef BatchWriter writer
    cdef Py_ssize_t row = start, headers_size = 1, first_header = 0, header_count = 0
    cdef int64_t timestamp_ms = columns.timestamp_ms
    cdef uint8_t* at
    no_view(&view)
    key.data = NULL
    key.size = -1
    check_rows(start, stop, columns.row_count)
    try:
        take_partitions(partitions, &view, start, stop)
        while row < stop:
            writer = writer_of(targets, &view, row)
            if writer is None:
                break
            if columns.keys is not None:
                columns.keys.get(row, &key)
            columns.values.get(row, &value)
            if columns.timestamps is not None:
                timestamp_ms = columns.timestamps.get(row, columns.timestamp_ms)
            if columns.headers is not None:
                header_count = columns.headers.count(row, &first_header)
                headers_size = columns.headers.size_of(first_header, header_count)
            at = writer.place(timestamp_ms, &key, &value, headers_size)
            if at == NULL:
                break
            at[0] = 0
            if header_count:
                columns.headers.write(at, first_header, header_count)
            row += 1
    except Exception:
        if row == start:
            raise
    finally:
        PyBuffer_Release(&view)
    return row


def partitions_of_list(keys, int32_t partition_count):
    """The partition that Java's producer chooses for each key, as array('i'); -1 for a null key."""
    check_sequence(keys)
    cdef Py_buffer view, key_view
    cdef Piece key
    cdef Py_ssize_t row
    result = new_partitions(sequence_size(keys), partition_count)
    no_view(&key_view)
    PyObject_GetBuffer(result, &view, PyBUF_WRITABLE)
    try:
        for row in range(view.len // 4):
            if row >= sequence_size(keys):
                break
            take(sequence_item(keys, row), &key_view, &key)
            (<int32_t*>view.buf)[row] = partition_of(&key, partition_count)
            PyBuffer_Release(&key_view)
    finally:
        PyBuffer_Release(&key_view)
        PyBuffer_Release(&view)
    return result


def partitions_of_columns(RecordColumns columns not None, int32_t partition_count):
    """The same for the rows of columns."""
    cdef Py_buffer view
    cdef Piece key
    cdef Py_ssize_t row
    result = new_partitions(columns.row_count, partition_count)
    key.data = NULL
    key.size = -1
    PyObject_GetBuffer(result, &view, PyBUF_WRITABLE)
    try:
        for row in range(columns.row_count):
            if columns.keys is not None:
                columns.keys.get(row, &key)
            (<int32_t*>view.buf)[row] = partition_of(&key, partition_count)
    finally:
        PyBuffer_Release(&view)
    return result


def murmur2(data):
    """The 32-bit murmur2 hash with Kafka's seed, signed as Java has it."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return <int32_t>hash_of(<const uint8_t*>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


# What these call, by subject

include "_writer_columns.pxi"
include "_writer_rows.pxi"
include "_writer_fields.pxi"
