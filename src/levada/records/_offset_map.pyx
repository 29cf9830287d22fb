# cython: language_level=3, cdivision=True
"""The last offset of each key, compiled: an open table of hashes that stays within the memory it was given.

Its twin is `pure_offset_map.py`. Keys are known by 128 bits of SipHash under a key that never leaves the broker: a
producer that could make two keys of one hash could make compaction lose a record.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from levada.records._layout cimport Field, Parsed, parse

from levada.records.errors import CorruptBatch
from levada.records.record import SMALLEST_RECORD, Sifted

cdef Py_ssize_t smallest_record = SMALLEST_RECORD

cdef struct Slot:
    uint64_t high
    uint64_t low
    int64_t next_offset  # One more than the offset, so that 0 is a free slot.


cdef class OffsetMap:
    cdef Slot* _slots
    cdef Py_ssize_t _slot_count
    cdef Py_ssize_t _count
    cdef Py_ssize_t _limit
    cdef uint64_t _key[2]
    cdef public int64_t latest_offset

    def __cinit__(self, Py_ssize_t slot_count, Py_ssize_t limit, bytes key):
        if not 0 < limit < slot_count:
            raise ValueError(f"{limit} keys in {slot_count} slots")
        if len(key) != 16:
            raise ValueError("the key of a hash has 16 bytes")
        # Pages that are never touched cost nothing.
        self._slots = <Slot*>calloc(slot_count, sizeof(Slot))
        if self._slots == NULL:
            raise MemoryError
        self._slot_count = slot_count
        self._limit = limit
        memcpy(self._key, <const char*>key, 16)
        self.latest_offset = -1

    def __dealloc__(self):
        free(self._slots)

    def __len__(self):
        return self._count

    def note(self, body, Py_ssize_t count, int64_t base_offset, int64_t from_offset):
        """Remember the offset of each record with a key; False once there is no room, and no more is looked at."""
        cdef Py_buffer view
        cdef Parsed record
        cdef const uint8_t* at
        cdef const uint8_t* end
        cdef int64_t offset
        cdef Slot* slot
        cdef uint64_t hashed[2]
        PyObject_GetBuffer(body, &view, PyBUF_SIMPLE)
        try:
            at = <const uint8_t*>view.buf
            end = at + view.len
            check_count(count, view.len)
            for index in range(count):
                at = next_record(at, end, index, &record)
                offset = base_offset + record.offset_delta
                if record.key.size < 0 or offset < from_offset:
                    continue
                if self._count >= self._limit:
                    return False
                siphash(record.key, self._key, hashed)
                slot = self._find(hashed)
                if slot.next_offset == 0:
                    slot.high, slot.low = hashed[0], hashed[1]
                    self._count += 1
                slot.next_offset = offset + 1
                self.latest_offset = offset
        finally:
            PyBuffer_Release(&view)
        return True

    def sift(self, body, Py_ssize_t count, int64_t base_offset, bint drops_tombstones):
        """Which records of a section stay: those past the map, and the last of each key."""
        cdef Py_buffer view
        cdef Parsed record
        cdef const uint8_t* at
        cdef const uint8_t* end
        cdef int64_t offset
        cdef uint64_t hashed[2]
        cdef Py_ssize_t index, kept = 0, keyless = 0
        cdef bint has_tombstone = False, stays
        flags = bytearray(max(count, 0))
        cdef char* flag = PyByteArray_AS_STRING(flags)
        PyObject_GetBuffer(body, &view, PyBUF_SIMPLE)
        try:
            at = <const uint8_t*>view.buf
            end = at + view.len
            check_count(count, view.len)
            for index in range(count):
                at = next_record(at, end, index, &record)
                offset = base_offset + record.offset_delta
                if offset > self.latest_offset:
                    stays = True
                elif record.key.size < 0:
                    keyless += 1
                    stays = False
                else:
                    siphash(record.key, self._key, hashed)
                    stays = offset + 1 >= self._find(hashed).next_offset
                    if record.value.size < 0 and drops_tombstones:
                        stays = False
                if stays:
                    flag[index] = 1
                    kept += 1
                    has_tombstone = has_tombstone or record.value.size < 0
        finally:
            PyBuffer_Release(&view)
        return Sifted(kept, keyless, has_tombstone, flags)

    cdef Slot* _find(self, uint64_t* hashed) noexcept:
        """The slot of a hash, or the free one that it would take; one is always free."""
        cdef Py_ssize_t place = <Py_ssize_t>(hashed[0] % <uint64_t>self._slot_count)
        cdef Slot* slot = self._slots + place
        while slot.next_offset != 0 and (slot.high != hashed[0] or slot.low != hashed[1]):
            place += 1
            if place == self._slot_count:
                place = 0
            slot = self._slots + place
        return slot


cdef int check_count(Py_ssize_t count, Py_ssize_t size) except -1:
    if count < 0 or count > size // smallest_record:
        raise CorruptBatch(f"{size} bytes cannot hold {count} records")
    return 0


cdef const uint8_t* next_record(
    const uint8_t* at, const uint8_t* end, Py_ssize_t index, Parsed* record
) except NULL:
    cdef const char* fault = parse(at, end, record)
    if fault != NULL:
        raise CorruptBatch(f"record {index}: {fault.decode()}")
    return record.end


cdef inline uint64_t rotated(uint64_t number, int bits) noexcept nogil:
    return (number << bits) | (number >> (64 - bits))


cdef inline void mix(uint64_t* v, int rounds) noexcept nogil:
    cdef int number
    for number in range(rounds):
        v[0] += v[1]
        v[1] = rotated(v[1], 13) ^ v[0]
        v[0] = rotated(v[0], 32)
        v[2] += v[3]
        v[3] = rotated(v[3], 16) ^ v[2]
        v[0] += v[3]
        v[3] = rotated(v[3], 21) ^ v[0]
        v[2] += v[1]
        v[1] = rotated(v[1], 17) ^ v[2]
        v[2] = rotated(v[2], 32)


cdef void siphash(Field field, uint64_t* key, uint64_t* hashed) noexcept nogil:
    """SipHash-2-4 of 128 bits."""
    cdef uint64_t v[4]
    cdef uint64_t word
    cdef const uint8_t* at = field.data
    cdef const uint8_t* last = at + (field.size & ~7)
    v[0] = <uint64_t>0x736F6D6570736575ULL ^ key[0]
    v[1] = <uint64_t>0x646F72616E646F6DULL ^ key[1] ^ 0xEE
    v[2] = <uint64_t>0x6C7967656E657261ULL ^ key[0]
    v[3] = <uint64_t>0x7465646279746573ULL ^ key[1]
    while at < last:
        memcpy(&word, at, 8)
        v[3] ^= word
        mix(v, 2)
        v[0] ^= word
        at += 8
    word = <uint64_t>field.size << 56
    memcpy(&word, at, field.size & 7)
    v[3] ^= word
    mix(v, 2)
    v[0] ^= word
    v[2] ^= 0xEE
    mix(v, 4)
    hashed[0] = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    mix(v, 4)
    hashed[1] = v[0] ^ v[1] ^ v[2] ^ v[3]
