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


# Arrow's columns


@cython.final
cdef class Binary:
    """A column of byte strings, its buffers held and their sizes checked."""

    cdef Py_buffer validity, ends, data
    cdef Py_ssize_t row_count, first
    cdef bint is_large

    def __cinit__(self, source):
        row_count, first, validity, ends, is_large, data = source
        self.row_count = row_count
        self.first = first
        self.is_large = is_large
        hold_validity(validity, &self.validity, self.row_count, self.first)
        hold(ends, &self.ends, 8 if self.is_large else 4, self.row_count, self.first, 1)
        PyObject_GetBuffer(data, &self.data, PyBUF_SIMPLE)

    def __dealloc__(self):
        PyBuffer_Release(&self.validity)
        PyBuffer_Release(&self.ends)
        PyBuffer_Release(&self.data)

    cdef inline int get(self, Py_ssize_t row, Piece* piece) except -1:
        cdef int64_t begin, end
        row += self.first
        if is_null(&self.validity, row):
            piece.size = -1
            return 0
        span(&self.ends, self.is_large, row, &begin, &end)
        if begin < 0 or end < begin or end > self.data.len:
            raise ValueError(f"row {row - self.first} goes beyond the data of its column")
        piece.data = <const uint8_t*>self.data.buf + begin
        piece.size = end - begin
        return 0


@cython.final
cdef class Numbers:
    """A column of 64-bit numbers."""

    cdef Py_buffer validity, numbers
    cdef Py_ssize_t row_count, first

    def __cinit__(self, source):
        row_count, first, validity, numbers = source
        self.row_count = row_count
        self.first = first
        hold_validity(validity, &self.validity, self.row_count, self.first)
        hold(numbers, &self.numbers, 8, self.row_count, self.first, 0)

    def __dealloc__(self):
        PyBuffer_Release(&self.validity)
        PyBuffer_Release(&self.numbers)

    cdef inline int64_t get(self, Py_ssize_t row, int64_t null) noexcept:
        cdef int64_t number
        row += self.first
        if is_null(&self.validity, row):
            return null
        memcpy(&number, <const uint8_t*>self.numbers.buf + 8 * row, 8)
        return number


@cython.final
cdef class Headers:
    """A column of lists of headers."""

    cdef Py_buffer validity, ends
    cdef Py_ssize_t row_count, first
    cdef bint is_large
    cdef Binary keys, values

    def __cinit__(self, source):
        row_count, first, validity, ends, is_large, keys, values = source
        self.row_count = row_count
        self.first = first
        self.is_large = is_large
        hold_validity(validity, &self.validity, self.row_count, self.first)
        hold(ends, &self.ends, 8 if self.is_large else 4, self.row_count, self.first, 1)
        self.keys = Binary(keys)
        self.values = Binary(values)

    def __dealloc__(self):
        PyBuffer_Release(&self.validity)
        PyBuffer_Release(&self.ends)

    cdef inline Py_ssize_t count(self, Py_ssize_t row, Py_ssize_t* first_header) except -1:
        cdef int64_t begin, end
        row += self.first
        if is_null(&self.validity, row):
            return 0
        span(&self.ends, self.is_large, row, &begin, &end)
        if begin < 0 or end < begin or end > self.keys.row_count or end > self.values.row_count:
            raise ValueError(f"the headers of row {row - self.first} go beyond their column")
        first_header[0] = begin
        return end - begin

    cdef Py_ssize_t size_of(self, Py_ssize_t first, Py_ssize_t count) except -1:
        cdef Py_ssize_t header, size = number_size(count)
        cdef Piece piece
        for header in range(first, first + count):
            self.keys.get(header, &piece)
            if piece.size < 0:
                raise ValueError("a header has no key")
            size += piece_size(&piece)
            self.values.get(header, &piece)
            size += piece_size(&piece)
        return size

    cdef int write(self, uint8_t* at, Py_ssize_t first, Py_ssize_t count) except -1:
        cdef Py_ssize_t header
        cdef Piece piece
        at = write_number(at, count)
        for header in range(first, first + count):
            self.keys.get(header, &piece)
            at = write_piece(at, &piece)
            self.values.get(header, &piece)
            at = write_piece(at, &piece)
        return 0


@cython.final
cdef class RecordColumns:
    """All columns of records to be written, ready for any number of calls."""

    cdef Binary keys, values
    cdef Numbers timestamps
    cdef Headers headers
    cdef int64_t timestamp_ms
    cdef readonly Py_ssize_t row_count

    def __cinit__(self, source):
        values, keys, headers, timestamps, timestamp_ms = source
        self.timestamp_ms = timestamp_ms
        self.values = Binary(values)
        self.keys = None if keys is None else Binary(keys)
        self.headers = None if headers is None else Headers(headers)
        self.timestamps = None if timestamps is None else Numbers(timestamps)
        self.row_count = self.values.row_count
        if self.keys is not None:
            check_row_count(self.row_count, self.keys.row_count)
        if self.headers is not None:
            check_row_count(self.row_count, self.headers.row_count)
        if self.timestamps is not None:
            check_row_count(self.row_count, self.timestamps.row_count)


cdef int check_row_count(Py_ssize_t expected, Py_ssize_t found) except -1:
    if expected != found:
        raise ValueError(f"columns of {expected} and of {found} rows")
    return 0


cdef int hold(
    object data, Py_buffer* view, Py_ssize_t width, Py_ssize_t row_count, Py_ssize_t first, Py_ssize_t extra
) except -1:
    if row_count < 0 or first < 0 or first > most_rows - row_count:
        raise ValueError(f"{row_count} rows from {first} on")
    PyObject_GetBuffer(data, view, PyBUF_SIMPLE)
    if row_count and view.len // width < first + row_count + extra:
        raise ValueError(f"{view.len} bytes do not hold {row_count} rows from {first} on")
    return 0


cdef int hold_validity(object data, Py_buffer* view, Py_ssize_t row_count, Py_ssize_t first) except -1:
    if data is None:
        return 0
    PyObject_GetBuffer(data, view, PyBUF_SIMPLE)
    if row_count < 0 or first < 0 or first > most_rows - row_count or 8 * view.len < first + row_count:
        raise ValueError(f"{view.len} bytes of validity do not hold {row_count} rows from {first} on")
    return 0


cdef inline bint is_null(Py_buffer* validity, Py_ssize_t row) noexcept:
    return is_held(validity) and not (<const uint8_t*>validity.buf)[row >> 3] >> (row & 7) & 1


cdef inline void span(Py_buffer* ends, bint is_large, Py_ssize_t row, int64_t* begin, int64_t* end) noexcept:
    # Copied rather than cast: a slice of other memory need not be aligned.
    cdef int32_t small[2]
    cdef int64_t large[2]
    if is_large:
        memcpy(large, <const uint8_t*>ends.buf + 8 * row, 16)
        begin[0] = large[0]
        end[0] = large[1]
    else:
        memcpy(small, <const uint8_t*>ends.buf + 4 * row, 8)
        begin[0] = small[0]
        end[0] = small[1]


# Rows and their partitions


cdef tuple checked_writers(object writers):
    cdef tuple targets = tuple(writers)
    for writer in targets:
        if writer is not None and type(writer) is not BatchWriter:
            raise TypeError(f"rows are written by a BatchWriter, not {type(writer).__name__}")
    return targets


cdef int check_sequence(object sequence) except -1:
    if not isinstance(sequence, (list, tuple)):
        raise TypeError(f"rows come in a list or a tuple, not {type(sequence).__name__}")
    return 0


cdef int check_rows(Py_ssize_t start, Py_ssize_t stop, Py_ssize_t row_count) except -1:
    if not 0 <= start <= stop <= row_count:
        raise ValueError(f"rows {start} to {stop} of {row_count}")
    return 0


cdef int take_partitions(object partitions, Py_buffer* view, Py_ssize_t start, Py_ssize_t stop) except -1:
    if partitions is None:
        return 0
    PyObject_GetBuffer(partitions, view, PyBUF_FORMAT | PyBUF_ND)
    if view.ndim != 1 or view.itemsize != 4 or view.format == NULL or view.format[0] != b"i":
        raise TypeError("partitions come as an array of 32-bit numbers")
    return check_rows(start, stop, view.len // 4)


cdef inline BatchWriter writer_of(tuple targets, Py_buffer* partitions, Py_ssize_t row):
    cdef int32_t partition = 0
    if is_held(partitions):
        memcpy(&partition, <const uint8_t*>partitions.buf + 4 * row, 4)
    if partition < 0 or partition >= PyTuple_GET_SIZE(targets):
        raise IndexError(f"row {row} is for partition {partition} of {PyTuple_GET_SIZE(targets)}")
    return <BatchWriter>PyTuple_GET_ITEM(targets, partition)


cdef object new_partitions(Py_ssize_t row_count, int32_t partition_count):
    if partition_count <= 0:
        raise ValueError(f"{partition_count} partitions")
    return array("i", bytes(4 * row_count))


cdef inline int32_t partition_of(Piece* key, int32_t partition_count) noexcept:
    if key.size < 0:
        return -1
    return <int32_t>((hash_of(key.data, key.size) & 0x7FFFFFFF) % <uint32_t>partition_count)


cdef inline uint32_t hash_of(const uint8_t* at, Py_ssize_t size) noexcept:
    cdef uint32_t multiplier = 0x5BD1E995
    cdef uint32_t group, value = <uint32_t>0x9747B28C ^ <uint32_t>size
    while size >= 4:
        group = at[0] | <uint32_t>at[1] << 8 | <uint32_t>at[2] << 16 | <uint32_t>at[3] << 24
        group *= multiplier
        group = (group ^ group >> 24) * multiplier
        value = value * multiplier ^ group
        at += 4
        size -= 4
    if size:
        if size == 3:
            value ^= <uint32_t>at[2] << 16
        if size >= 2:
            value ^= <uint32_t>at[1] << 8
        value = (value ^ at[0]) * multiplier
    value = (value ^ value >> 13) * multiplier
    return value ^ value >> 15


# Fields


cdef inline int take(PyObject* field, Py_buffer* view, Piece* piece) except -1:
    """The bytes of a field, which the view keeps in place unless they are a bytes object's."""
    if field == <PyObject*>None:
        piece.data = NULL
        piece.size = -1
    elif PyBytes_CheckExact(<object>field):
        piece.data = <const uint8_t*>PyBytes_AS_STRING(<object>field)
        piece.size = PyBytes_GET_SIZE(<object>field)
    else:
        take_buffer(<object>field, view, piece)
    return 0


cdef int take_buffer(object field, Py_buffer* view, Piece* piece) except -1:
    PyObject_GetBuffer(field, view, PyBUF_SIMPLE)
    piece.data = <const uint8_t*>view.buf
    piece.size = view.len
    return 0


cdef inline Py_ssize_t piece_size(Piece* piece) noexcept:
    if piece.size < 0:
        return 1
    return number_size(piece.size) + piece.size


cdef inline uint8_t* write_piece(uint8_t* at, Piece* piece) noexcept:
    if piece.size < 0:
        at[0] = 1
        return at + 1
    at = write_number(at, piece.size)
    memcpy(at, piece.data, piece.size)
    return at + piece.size


cdef inline tuple plain_headers(object headers):
    """The headers with every key a str and every value bytes or None, so that two passes see the same."""
    if type(headers) is tuple and PyTuple_GET_SIZE(headers) == 0:
        return no_headers
    return checked_headers(headers)


cdef tuple checked_headers(object headers):
    cdef Py_buffer view
    cdef list pairs = []
    for name, value in headers:
        if not isinstance(name, str):
            raise TypeError(f"a header key is text, not {type(name).__name__}")
        if value is not None and type(value) is not bytes:
            # A bytes() of a number would be that many zeros, so anything else must be a buffer.
            PyObject_GetBuffer(value, &view, PyBUF_SIMPLE)
            try:
                value = (<const char*>view.buf)[:view.len]
            finally:
                PyBuffer_Release(&view)
        pairs.append((name, value))
    return tuple(pairs)


cdef inline Py_ssize_t headers_size(tuple headers) except -1:
    cdef Py_ssize_t name_size, size = number_size(PyTuple_GET_SIZE(headers))
    cdef Piece piece
    for pair in headers:
        PyUnicode_AsUTF8AndSize(<object>PyTuple_GET_ITEM(pair, 0), &name_size)
        take(<PyObject*>PyTuple_GET_ITEM(pair, 1), NULL, &piece)
        size += number_size(name_size) + name_size + piece_size(&piece)
    return size


cdef inline int write_headers(uint8_t* at, tuple headers) except -1:
    cdef Piece piece
    at = write_number(at, PyTuple_GET_SIZE(headers))
    for pair in headers:
        piece.data = <const uint8_t*>PyUnicode_AsUTF8AndSize(<object>PyTuple_GET_ITEM(pair, 0), &piece.size)
        at = write_piece(at, &piece)
        take(<PyObject*>PyTuple_GET_ITEM(pair, 1), NULL, &piece)
        at = write_piece(at, &piece)
    return 0
