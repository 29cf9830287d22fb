# cython: language_level=3, boundscheck=False, wraparound=False
"""Requests known by their bytes, replies made from known ones, compiled. The twin is `pure_request_templates.py`."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

cdef extern from "Python.h":
    PyObject* PyDict_GetItemWithError(object known, object key) except? NULL

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define PREFETCH(at) __builtin_prefetch((const void *)(at), 1)
    #else
    #define PREFETCH(at) ((void)(at))
    #endif
    """
    void PREFETCH(size_t at) noexcept nogil

cdef enum:
    CLIENT_LENGTH_AT = 9
    CORRELATION_ID_AT = 4
    AFTER_CORRELATION_ID = 8
    OFFSET_SIZE = 8
    OFFSETS_SIZE = 24
    LONGEST_SIZE = 5
    LINE = 64
    MOST_OBJECTS = 8
    GC_HEAD = 16


cdef class RequestTemplate:
    cdef Py_ssize_t _topic_at
    cdef Py_ssize_t _behind_name
    cdef bint _goes_by_name
    cdef bint _is_flexible
    cdef bytes _tail

    def __cinit__(
        self, Py_ssize_t topic_at, Py_ssize_t behind_name, bint goes_by_name, bint is_flexible, bytes tail
    ):
        self._topic_at = topic_at
        self._behind_name = behind_name
        self._goes_by_name = goes_by_name
        self._is_flexible = is_flexible
        self._tail = tail

    def end_of_prefix(self, object frame):
        cdef Py_buffer view
        cdef Py_ssize_t end
        PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
        end = self._end(<const uint8_t*>view.buf, view.len)
        PyBuffer_Release(&view)
        return end

    def find_fetch(self, dict known, object frame):
        cdef Py_buffer view
        PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
        try:
            return self._find_fetch(known, <const uint8_t*>view.buf, view.len)
        finally:
            PyBuffer_Release(&view)

    def find_produce(self, dict known, object frame):
        cdef Py_buffer view
        PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
        try:
            return self._find_produce(known, <const uint8_t*>view.buf, view.len)
        finally:
            PyBuffer_Release(&view)

    cdef Py_ssize_t _end(self, const uint8_t* data, Py_ssize_t size) noexcept:
        """Where the prefix ends; 0 if the frame ends before."""
        cdef Py_ssize_t at
        if size <= CLIENT_LENGTH_AT:
            return 0
        at = self._topic_at + data[CLIENT_LENGTH_AT]
        if not self._goes_by_name:
            return at if at <= size else 0
        if at >= size:
            return 0
        at += data[at] + self._behind_name
        return at if at <= size else 0

    cdef object _find_fetch(self, dict known, const uint8_t* data, Py_ssize_t size):
        cdef Py_ssize_t end = self._end(data, size)
        cdef Py_ssize_t before = end - AFTER_CORRELATION_ID
        cdef Py_ssize_t after = size - end - OFFSET_SIZE
        if not end or after < 0:
            return None
        key = PyBytes_FromStringAndSize(NULL, before + after)
        memcpy(PyBytes_AS_STRING(key), data + AFTER_CORRELATION_ID, before)
        memcpy(PyBytes_AS_STRING(key) + before, data + end + OFFSET_SIZE, after)
        cdef PyObject* found = PyDict_GetItemWithError(known, key)
        if found is NULL:
            return None
        return <object>found, <int64_t>_read_64(data + end)

    cdef object _find_produce(self, dict known, const uint8_t* data, Py_ssize_t size):
        cdef Py_ssize_t end = self._end(data, size)
        cdef Py_ssize_t start, stop, records, tail = PyBytes_GET_SIZE(self._tail)
        cdef PyObject* found
        if not end:
            return None
        key = PyBytes_FromStringAndSize(<const char*>data + AFTER_CORRELATION_ID, end - AFTER_CORRELATION_ID)
        found = PyDict_GetItemWithError(known, key)
        if found is NULL:
            return None
        records, start = self._read_size(data, end, size)
        stop = size - tail
        if records < 0 or records != stop - start or memcmp(data + stop, PyBytes_AS_STRING(self._tail), tail):
            return None
        return <object>found, start, stop

    cdef (Py_ssize_t, Py_ssize_t) _read_size(self, const uint8_t* data, Py_ssize_t at, Py_ssize_t size) noexcept:
        """The size of records that is written at a place, -1 for none, and where they begin."""
        cdef uint64_t value = 0
        cdef int shift = 0
        if not self._is_flexible:
            if at + 4 > size:
                return -1, at
            return <Py_ssize_t><int>_read_32(data + at), at + 4
        while at < size and shift < 7 * LONGEST_SIZE:
            value |= <uint64_t>(data[at] & 127) << shift
            shift += 7
            at += 1
            if data[at - 1] < 128:
                # More bits than a size has are for the decoder to refuse.
                return (<Py_ssize_t>value - 1 if value < (1 << 31) else -1), at
        return -1, at


cdef class ResponseTemplate:
    cdef bytes _before
    cdef bytes _after
    cdef readonly bytes tail
    cdef bint _is_flexible

    def __cinit__(self, bytes before, bytes after, bytes tail, bint is_flexible):
        self._before = before
        self._after = after
        self.tail = tail
        self._is_flexible = is_flexible

    def with_offsets(self, object frame, int64_t first, int64_t second, int64_t third):
        cdef Py_ssize_t size = self._size()
        reply = PyBytes_FromStringAndSize(NULL, 4 + size)
        cdef uint8_t* at = <uint8_t*>PyBytes_AS_STRING(reply)
        _write_32(at, <uint32_t>size)
        self._fill(at + 4, frame, first, second, third)
        return reply

    def before_records(self, object frame, int64_t first, int64_t second, int64_t third, Py_ssize_t records):
        cdef uint8_t field[LONGEST_SIZE]
        cdef Py_ssize_t length = self._size_field(field, records)
        reply = PyBytes_FromStringAndSize(NULL, self._size() + length)
        cdef uint8_t* at = self._fill(<uint8_t*>PyBytes_AS_STRING(reply), frame, first, second, third)
        memcpy(at, field, length)
        return reply

    def with_records(self, object frame, int64_t first, int64_t second, int64_t third, object records):
        cdef Py_buffer view
        PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
        try:
            return self._with_records(frame, first, second, third, &view)
        finally:
            PyBuffer_Release(&view)

    cdef object _with_records(self, object frame, int64_t first, int64_t second, int64_t third, Py_buffer* records):
        cdef uint8_t field[LONGEST_SIZE]
        cdef Py_ssize_t length = self._size_field(field, records.len)
        cdef Py_ssize_t tail = PyBytes_GET_SIZE(self.tail)
        cdef Py_ssize_t size = self._size() + length + records.len + tail
        reply = PyBytes_FromStringAndSize(NULL, 4 + size)
        cdef uint8_t* at = <uint8_t*>PyBytes_AS_STRING(reply)
        _write_32(at, <uint32_t>size)
        at = self._fill(at + 4, frame, first, second, third)
        memcpy(at, field, length)
        memcpy(at + length, records.buf, records.len)
        memcpy(at + length + records.len, PyBytes_AS_STRING(self.tail), tail)
        return reply

    cdef Py_ssize_t _size(self) noexcept:
        """From the correlation id to the end of what follows the offsets."""
        return 4 + PyBytes_GET_SIZE(self._before) + OFFSETS_SIZE + PyBytes_GET_SIZE(self._after)

    cdef uint8_t* _fill(self, uint8_t* at, object frame, int64_t first, int64_t second, int64_t third) except NULL:
        cdef Py_buffer view
        cdef Py_ssize_t before = PyBytes_GET_SIZE(self._before), after = PyBytes_GET_SIZE(self._after)
        PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
        memcpy(at, <const uint8_t*>view.buf + CORRELATION_ID_AT, 4)
        PyBuffer_Release(&view)
        at += 4
        memcpy(at, PyBytes_AS_STRING(self._before), before)
        at += before
        _write_64(at, <uint64_t>first)
        _write_64(at + 8, <uint64_t>second)
        _write_64(at + 16, <uint64_t>third)
        at += OFFSETS_SIZE
        memcpy(at, PyBytes_AS_STRING(self._after), after)
        return at + after

    cdef Py_ssize_t _size_field(self, uint8_t* field, Py_ssize_t size) noexcept:
        cdef uint64_t value = <uint64_t>size + 1
        cdef Py_ssize_t length = 0
        if not self._is_flexible:
            _write_32(field, <uint32_t>size)
            return 4
        while value > 127:
            field[length] = <uint8_t>(value & 127 | 128)
            value >>= 7
            length += 1
        field[length] = <uint8_t>value
        return length + 1


cdef class CachePrefetch:
    cdef tuple _objects
    cdef size_t _starts[MOST_OBJECTS]
    cdef size_t _sizes[MOST_OBJECTS]
    cdef int _count

    def __cinit__(self, *objects):
        # Their fields are read, so they must live as long as this.
        self._objects = objects[:MOST_OBJECTS]
        self._count = len(self._objects)
        for number, one in enumerate(self._objects):
            self._starts[number] = <size_t><PyObject*>one
            self._sizes[number] = min(type(one).__basicsize__, one.__sizeof__())

    def prefetch(self):
        cdef int number
        cdef size_t at, end
        for number in range(self._count):
            at, end = (self._starts[number] - GC_HEAD) // LINE * LINE, self._starts[number] + self._sizes[number]
            while at < end:
                PREFETCH(at)
                at += LINE
        for number in range(self._count):
            # A field that is no reference leads anywhere, and the processor lets a prefetch from there pass.
            at, end = self._starts[number] + sizeof(PyObject), self._starts[number] + self._sizes[number]
            while at + sizeof(size_t) <= end:
                PREFETCH((<size_t*>at)[0])
                at += sizeof(size_t)


cdef inline uint64_t _read_64(const uint8_t* at) noexcept nogil:
    return <uint64_t>_read_32(at) << 32 | _read_32(at + 4)


cdef inline uint32_t _read_32(const uint8_t* at) noexcept nogil:
    return <uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3]


cdef inline void _write_64(uint8_t* at, uint64_t value) noexcept nogil:
    _write_32(at, <uint32_t>(value >> 32))
    _write_32(at + 4, <uint32_t>value)


cdef inline void _write_32(uint8_t* at, uint32_t value) noexcept nogil:
    at[0] = <uint8_t>(value >> 24)
    at[1] = <uint8_t>(value >> 16)
    at[2] = <uint8_t>(value >> 8)
    at[3] = <uint8_t>value
