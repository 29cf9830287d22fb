# The bytes of keys, values and headers. A part of _writer.pyx.

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
