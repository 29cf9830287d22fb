"""The sparse indexes of a segment: from an offset to a position, and from a timestamp to an offset."""

import sys
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct
from typing import NamedTuple

from levada.model.buffers import Buffer
from levada.storage.formats import OFFSET_ENTRY, TIME_ENTRY

NO_TIMESTAMP = -1
INT32 = "i"


class OffsetPosition(NamedTuple):
    offset: int
    position: int


class TimestampOffset(NamedTuple):
    timestamp_ms: int
    offset: int


class OffsetIndex:
    """Entries (last offset of a batch, position of the batch), both ascending; bisected at C's speed."""

    __slots__ = ("_base_offset", "_max_entries", "_offsets", "_positions")

    def __init__(self, base_offset: int, max_bytes: int, data: Buffer = b"") -> None:
        self._base_offset = base_offset
        self._max_entries = max_bytes // OFFSET_ENTRY.size
        numbers = array(INT32)
        numbers.frombytes(data)
        _swap_to_or_from_big_endian(numbers)
        self._offsets = numbers[0::2]
        self._positions = numbers[1::2]

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def data(self) -> bytes:
        """The content of the file, exactly sized."""
        return self.data_from(0)

    def data_from(self, slot: int) -> bytes:
        """What the file has from an entry on."""
        numbers = array(INT32, bytes((len(self) - slot) * OFFSET_ENTRY.size))
        numbers[0::2] = self._offsets[slot:]
        numbers[1::2] = self._positions[slot:]
        _swap_to_or_from_big_endian(numbers)
        return numbers.tobytes()

    @property
    def is_full(self) -> bool:
        return len(self._offsets) >= self._max_entries

    def append(self, offset: int, position: int) -> None:
        self._offsets.append(offset - self._base_offset)
        self._positions.append(position)

    def lookup(self, offset: int) -> OffsetPosition:
        """The greatest entry that is not above the offset; the beginning of the segment if there is none."""
        slot = bisect_right(self._offsets, offset - self._base_offset) - 1
        if slot < 0:
            return OffsetPosition(self._base_offset, 0)
        return OffsetPosition(self._base_offset + self._offsets[slot], self._positions[slot])

    def stretch(self, offset: int, max_bytes: int, size: int, limit: int) -> tuple[int | None, int, int]:
        """Where to read so that what a read from an offset may want is there: (offset, position, bytes).

        The batch lies at the entry that `lookup` finds or behind it, and at the next entry at the latest. Batches so
        long that this would be beyond `limit` have an entry each: then it is the next one, or a look at it will tell.
        Where there is no entry the offset is None. `size` is the segment's.
        """
        offsets, positions = self._offsets, self._positions
        slot = bisect_right(offsets, offset - self._base_offset)
        found, position = (self._base_offset + offsets[slot - 1], positions[slot - 1]) if slot else (None, 0)
        if found == offset:
            size = min(position + max_bytes, size)
        elif slot < len(positions):
            size = min(positions[slot] + max_bytes, size)
            if size - position > limit:
                found, position = self._base_offset + offsets[slot], positions[slot]
        return found, position, size - position

    def first_from_position(self, position: int) -> OffsetPosition | None:
        """The first entry at or behind a position."""
        slot = bisect_left(self._positions, position)
        if slot == len(self):
            return None
        return OffsetPosition(self._base_offset + self._offsets[slot], self._positions[slot])

    def truncate(self, offset: int) -> None:
        """Drop every entry at or above the offset."""
        keep = bisect_left(self._offsets, offset - self._base_offset)
        del self._offsets[keep:]
        del self._positions[keep:]

    def clear(self) -> None:
        del self._offsets[:]
        del self._positions[:]


def _swap_to_or_from_big_endian(numbers: "array[int]") -> None:
    if sys.byteorder == "little":
        numbers.byteswap()


class TimeIndex:
    """Entries (largest timestamp so far, last offset of the batch that has it), timestamps strictly ascending."""

    __slots__ = ("_base_offset", "_data", "_last_timestamp_ms", "_max_entries")

    def __init__(self, base_offset: int, max_bytes: int, data: Buffer = b"") -> None:
        self._base_offset = base_offset
        self._max_entries = max_bytes // TIME_ENTRY.size
        self._data = bytearray(data)
        self._last_timestamp_ms = self.last.timestamp_ms

    def __len__(self) -> int:
        return len(self._data) // TIME_ENTRY.size

    @property
    def data(self) -> bytes:
        """The content of the file, exactly sized."""
        return bytes(self._data)

    def data_from(self, slot: int) -> bytes:
        """What the file has from an entry on."""
        return bytes(self._data[slot * TIME_ENTRY.size :])

    @property
    def is_full(self) -> bool:
        # One place is kept for the entry that closes the segment.
        return len(self) >= self._max_entries - 1

    @property
    def last(self) -> TimestampOffset:
        return self._entry(len(self) - 1) if self._data else TimestampOffset(NO_TIMESTAMP, self._base_offset)

    def append_if_larger(self, timestamp_ms: int, offset: int) -> None:
        """An entry with no larger timestamp than the last says nothing new."""
        if timestamp_ms > self._last_timestamp_ms:
            self._data += TIME_ENTRY.pack(timestamp_ms, offset - self._base_offset)
            self._last_timestamp_ms = timestamp_ms

    def lookup(self, timestamp_ms: int) -> TimestampOffset:
        """The greatest entry that is not above the timestamp; the beginning of the segment if there is none."""
        slot = _last_at_most(self._data, TIME_ENTRY, 0, timestamp_ms)
        return TimestampOffset(NO_TIMESTAMP, self._base_offset) if slot < 0 else self._entry(slot)

    def truncate(self, offset: int) -> None:
        """Drop every entry at or above the offset."""
        keep = _last_at_most(self._data, TIME_ENTRY, 1, offset - self._base_offset - 1) + 1
        del self._data[keep * TIME_ENTRY.size :]
        self._last_timestamp_ms = self.last.timestamp_ms

    def clear(self) -> None:
        self._data.clear()
        self._last_timestamp_ms = NO_TIMESTAMP

    def _entry(self, slot: int) -> TimestampOffset:
        timestamp_ms, relative = TIME_ENTRY.unpack_from(self._data, slot * TIME_ENTRY.size)
        return TimestampOffset(timestamp_ms, self._base_offset + relative)


def _last_at_most(data: Buffer, entry: Struct, field: int, target: int) -> int:
    """The last slot whose field is not above the target, by bisection; -1 if there is none."""
    low, high = 0, len(data) // entry.size
    while low < high:
        middle = (low + high) // 2
        if entry.unpack_from(data, middle * entry.size)[field] <= target:
            low = middle + 1
        else:
            high = middle
    return low - 1
