"""A stretch of a segment that was read into memory, and where its batches lie in it."""

from bisect import bisect_left
from struct import Struct

from levada.model.buffers import Buffer, has_views
from levada.records import extents
from levada.records.batch import HEADER_SIZE, LENGTH_OVERHEAD, MAGIC

EXTENT = Struct(">qi4xb6xi")
"""What it takes to walk over a batch: base offset, length, magic, last offset delta."""


class ReadWindow:
    """Serves small reads that follow one another, as a consumer's do, without a system call for each.

    What lies in a segment below its end never changes, unless the log is truncated: then its windows must be dropped.
    """

    __slots__ = ("_data", "_first_offset", "_last_offsets", "_memory", "_size", "_starts", "next_offset", "position")

    def __init__(self, position: int, data: Buffer, memory: bytearray) -> None:
        self.position = position
        self._memory = memory
        self._data = memoryview(data)
        self._size = len(data)
        self._first_offset, self._starts, self._last_offsets = extents(data)
        self.next_offset = self._last_offsets[-1] + 1 if self._last_offsets else self._first_offset

    @property
    def end(self) -> int:
        """The position behind its last whole batch, which is that of `next_offset`."""
        return self.position + self._starts[-1]

    @property
    def first_last_offset(self) -> int | None:
        return self._last_offsets[0] if self._last_offsets else None

    def give_up(self) -> bytearray | None:
        """The memory that it was read into, for another; None if a view of it is left."""
        self._data = memoryview(b"")
        return None if has_views(self._memory) else self._memory

    def read(self, offset: int, max_bytes: int, segment_size: int) -> memoryview | None:
        """What a read from the batch with `offset` gives, if all of it is here and holds that batch whole."""
        if not self._first_offset <= offset < self.next_offset:
            return None
        slot = bisect_left(self._last_offsets, offset)
        start = self._starts[slot]
        stop = start + max_bytes
        if self._starts[slot + 1] > stop or (stop > self._size and self.position + self._size < segment_size):
            return None
        return self._data[start:stop]


def cut_from(data: memoryview, offset: int, max_bytes: int, first_last_offset: int | None) -> memoryview | None:
    """What a read from the batch with `offset` gives; None unless that batch is here, whole and no longer than a read.

    If it is known where the first batch ends, it must end there, and not begin behind the offset.
    """
    start = 0
    while start + HEADER_SIZE <= len(data):
        base_offset, length, magic, last_offset_delta = EXTENT.unpack_from(data, start)
        last_offset, size = base_offset + last_offset_delta, length + LENGTH_OVERHEAD
        if magic != MAGIC or size < HEADER_SIZE:
            return None
        if first_last_offset is not None and (first_last_offset != last_offset or base_offset > offset):
            return None
        if last_offset >= offset:
            is_whole = size <= max_bytes and start + size <= len(data)
            return data[start : start + max_bytes] if is_whole else None
        first_last_offset = None
        start += size
    return None
