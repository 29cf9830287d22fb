# Reads records one by one: their bounds, their fields, and what is wrong with them. A part of _kernel.pyx.

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
