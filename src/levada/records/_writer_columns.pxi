# Arrow's columns as the writer reads them, their buffers held and their sizes checked. A part of _writer.pyx.

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
