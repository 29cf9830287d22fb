# cython: language_level=3
"""CRC-32C where the processor can fold; elsewhere the import fails and the caller takes the package's."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uint32_t


cdef extern from "crc32c_x86.h":
    bint can_run()
    void prepare_tables()
    uint32_t crc32c_of(uint32_t crc, const uint8_t* data, size_t size)


if not can_run():
    raise ImportError("this processor has no carry-less products of 256 bits")
prepare_tables()


def crc32c(data, uint32_t value=0, /):
    """The checksum of `data`, going on from that of what came before it.

    The interpreter is kept: a megabyte takes 25 microseconds, and to get it back from a thread that computes takes
    milliseconds.
    """
    cdef Py_buffer view
    cdef uint32_t result
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    result = crc32c_of(value, <const uint8_t*>view.buf, view.len)
    PyBuffer_Release(&view)
    return result
