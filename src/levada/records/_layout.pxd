# cython: language_level=3, cdivision=True
"""The layout of a record in C, shared by the compiled units: numbers and fields, read within bounds and written."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef struct Field:
    const uint8_t* data
    int32_t size  # -1 is null

cdef struct Parsed:
    int64_t timestamp_delta
    int32_t offset_delta
    int32_t header_count
    Field key
    Field value
    const uint8_t* headers
    const uint8_t* end


cdef inline const char* parse(const uint8_t* at, const uint8_t* end, Parsed* record) noexcept nogil:
    """Read the record at a position, all but the inside of its headers; what is wrong with it, or NULL."""
    cdef int32_t size
    at = read_varint(at, end, &size)
    if at == NULL or size < 0 or size > end - at:
        return "length beyond the end of the batch"
    end = at + size
    record.end = end
    if size == 0:
        return "no attributes"
    # The attributes byte has no meaning yet; like Apache's, this reader takes any.
    at = read_varlong(at + 1, end, &record.timestamp_delta)
    if at == NULL:
        return "bad timestamp delta"
    at = read_varint(at, end, &record.offset_delta)
    if at == NULL:
        return "bad offset delta"
    at = read_field(at, end, &record.key)
    if at == NULL:
        return "key beyond the end of the record"
    at = read_field(at, end, &record.value)
    if at == NULL:
        return "value beyond the end of the record"
    at = read_varint(at, end, &record.header_count)
    # A header takes at least two bytes.
    if at == NULL or record.header_count < 0 or record.header_count > (end - at) // 2:
        return "header count beyond the end of the record"
    if record.header_count == 0 and at != end:
        return "its fields do not add up to its length"
    record.headers = at
    return NULL


cdef inline const uint8_t* read_field(const uint8_t* at, const uint8_t* end, Field* field) noexcept nogil:
    at = read_varint(at, end, &field.size)
    if at == NULL or field.size < -1 or field.size > end - at:
        return NULL
    field.data = at
    return at if field.size < 0 else at + field.size


cdef inline const uint8_t* read_varint(const uint8_t* at, const uint8_t* end, int32_t* number) noexcept nogil:
    cdef uint32_t raw
    cdef uint64_t long_raw
    if at < end and at[0] < 0x80:
        raw = at[0]
        at += 1
    elif end - at > 1 and at[1] < 0x80:
        raw = <uint32_t>(at[0] & 0x7F) | <uint32_t>at[1] << 7
        at += 2
    else:
        at = read_unsigned(at, end, 5, &long_raw)
        if at == NULL:
            return NULL
        raw = <uint32_t>long_raw
    number[0] = <int32_t>((raw >> 1) ^ (0 - (raw & 1)))
    return at


cdef inline const uint8_t* read_varlong(const uint8_t* at, const uint8_t* end, int64_t* number) noexcept nogil:
    cdef uint64_t raw
    if at < end and at[0] < 0x80:
        raw = at[0]
        at += 1
    else:
        at = read_unsigned(at, end, 10, &raw)
        if at == NULL:
            return NULL
    number[0] = <int64_t>((raw >> 1) ^ (0 - (raw & 1)))
    return at


cdef inline const uint8_t* read_unsigned(
    const uint8_t* at, const uint8_t* end, int limit, uint64_t* raw
) noexcept nogil:
    cdef int index
    raw[0] = 0
    for index in range(limit):
        if at >= end:
            return NULL
        raw[0] |= <uint64_t>(at[0] & 0x7F) << (7 * index)
        if at[0] < 0x80:
            return at + 1
        at += 1
    return NULL


cdef inline uint64_t zigzag(int64_t number) noexcept nogil:
    return (<uint64_t>number << 1) ^ <uint64_t>(number >> 63)


cdef inline Py_ssize_t number_size(int64_t number) noexcept nogil:
    """The zig-zag forms of 32 and 64 bits agree on every number that fits 32, so one writer serves both."""
    cdef uint64_t raw = zigzag(number)
    cdef Py_ssize_t size = 1
    while raw > 0x7F:
        raw >>= 7
        size += 1
    return size


cdef inline uint8_t* write_number(uint8_t* at, int64_t number) noexcept nogil:
    cdef uint64_t raw = zigzag(number)
    while raw > 0x7F:
        at[0] = <uint8_t>(raw & 0x7F | 0x80)
        at += 1
        raw >>= 7
    at[0] = <uint8_t>raw
    return at + 1
