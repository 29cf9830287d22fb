# cython: language_level=3
"""The way of a plain record into an open batch, compiled: what every send does, and most sends do nothing else.

Its twin `pure_front.py` has the same classes with the same results. There is no lock here: nothing between the look at
the open batch and the record in it can let another thread run, as only bytes are taken.
"""

cimport cython
from cpython.bytes cimport PyBytes_CheckExact
from cpython.long cimport PyLong_AsLongLongAndOverflow
from libc.stdint cimport int64_t

from levada.records.writer import murmur2

cdef extern from "time.h" nogil:
    ctypedef int clockid_t
    cdef struct timespec:
        long tv_sec
        long tv_nsec
    int clock_gettime(clockid_t clock, timespec* now)
    clockid_t CLOCK_REALTIME


@cython.no_gc
cdef class Ticket:
    """A record's place: its batch, and where in it."""

    cdef readonly object batch
    cdef readonly Py_ssize_t index
    cdef readonly int64_t timestamp_ms

    def __init__(self, batch, Py_ssize_t index, int64_t timestamp_ms):
        self.batch = batch
        self.index = index
        self.timestamp_ms = timestamp_ms


cdef class Front:
    """Puts a record into the open batch of its queue, or leaves it to the longer way."""

    cdef dict topics
    cdef type handle_type
    cdef object check, now_ms, append_open, longer
    cdef bint uses_system_time
    cdef public bint is_open
    """Off when the producer is closed, or its records need more than this."""

    def __init__(
        self, dict topics, type handle_type, append_open, now_ms, check, longer, *, bint uses_system_time
    ):
        self.topics = topics
        self.handle_type = handle_type
        self.append_open = append_open
        self.now_ms = now_ms
        self.check = check
        self.longer = longer
        self.uses_system_time = uses_system_time
        self.is_open = False

    def send(
        self, topic, value=None, *, key=None, headers=None, partition=None, timestamp_ms=None, on_delivery=None
    ):
        """The handle of the record; what the longer way gives, if it has to be taken."""
        handle = self.hurry(topic, value, key, headers, partition, timestamp_ms, on_delivery)
        if handle is None:
            return self.longer(topic, value, key, headers, partition, timestamp_ms, on_delivery)
        return handle

    cdef object hurry(self, topic, value, key, headers, partition, timestamp_ms, on_delivery):
        cdef Ticket ticket
        cdef int64_t time_ms
        cdef Py_ssize_t index
        cdef int is_too_large = 0
        if not self.is_open or partition is not None or headers is not None or not isinstance(topic, str):
            return None
        queues = self.topics.get(topic)
        if queues is None:
            return None
        if key is None:
            queue = queues.sticky
            if queue is None:
                return None
        elif PyBytes_CheckExact(key):
            queue = queues.partitions[(murmur2(key) & 0x7FFF_FFFF) % queues.count]
        else:
            return None
        if self.check is not None:
            self.check()
        if timestamp_ms is None:
            time_ms = self.time()
        else:
            if not isinstance(timestamp_ms, int):
                return None
            time_ms = PyLong_AsLongLongAndOverflow(timestamp_ms, &is_too_large)
            if is_too_large:
                return None
        if on_delivery is not None or not (value is None or PyBytes_CheckExact(value)):
            if not (value is None or isinstance(value, (bytes, bytearray, memoryview))):
                return None
            if not (on_delivery is None or callable(on_delivery)):
                return None
            return self.append_open(queue, time_ms, key, value, (), on_delivery)
        batch = queue.open
        if batch is None:
            return None
        index = batch.writer.append(time_ms, key, value)
        if index < 0:
            return None
        ticket = <Ticket>Ticket.__new__(self.handle_type)
        ticket.batch = batch
        ticket.index = index
        ticket.timestamp_ms = time_ms
        return ticket

    cdef int64_t time(self) except? -1:
        cdef timespec now
        if self.uses_system_time:
            clock_gettime(CLOCK_REALTIME, &now)
            return <int64_t>now.tv_sec * 1000 + now.tv_nsec // 1_000_000
        return self.now_ms()
