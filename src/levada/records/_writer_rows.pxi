# Rows and the partitions that they go to. A part of _writer.pyx.

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
