# Records as Arrow columns, in memory that the caller allocates. A part of _kernel.pyx.

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
