# Writes records one by one. A part of _kernel.pyx.

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
