"""The sparse indexes of a segment: from an offset to a position, and from a timestamp to an offset."""

from dataclasses import dataclass
from struct import Struct

from penstock.model.buffers import Buffer
from penstock.storage.formats import OFFSET_ENTRY, TIME_ENTRY

NO_TIMESTAMP = -1


@dataclass(frozen=True, slots=True)
class OffsetPosition:
    offset: int
    position: int


@dataclass(frozen=True, slots=True)
class TimestampOffset:
    timestamp_ms: int
    offset: int


class OffsetIndex:
    """Entries (last offset of a batch, position of the batch), both ascending."""

    __slots__ = ("_base_offset", "_data", "_max_entries")

    def __init__(self, base_offset: int, max_bytes: int, data: Buffer = b"") -> None:
        self._base_offset = base_offset
        self._max_entries = max_bytes // OFFSET_ENTRY.size
        self._data = bytearray(data)

    def __len__(self) -> int:
        return len(self._data) // OFFSET_ENTRY.size

    @property
    def data(self) -> bytes:
        """The content of the file, exactly sized."""
        return bytes(self._data)

    @property
    def is_full(self) -> bool:
        return len(self) >= self._max_entries

    def append(self, offset: int, position: int) -> None:
        self._data += OFFSET_ENTRY.pack(offset - self._base_offset, position)

    def lookup(self, offset: int) -> OffsetPosition:
        """The greatest entry that is not above the offset; the beginning of the segment if there is none."""
        slot = _last_at_most(self._data, OFFSET_ENTRY, 0, offset - self._base_offset)
        return OffsetPosition(self._base_offset, 0) if slot < 0 else self._entry(slot)

    def first_from_position(self, position: int) -> OffsetPosition | None:
        """The first entry at or behind a position."""
        slot = _last_at_most(self._data, OFFSET_ENTRY, 1, position - 1) + 1
        return self._entry(slot) if slot < len(self) else None

    def truncate(self, offset: int) -> None:
        """Drop every entry at or above the offset."""
        keep = _last_at_most(self._data, OFFSET_ENTRY, 0, offset - self._base_offset - 1) + 1
        del self._data[keep * OFFSET_ENTRY.size :]

    def clear(self) -> None:
        self._data.clear()

    def _entry(self, slot: int) -> OffsetPosition:
        relative, position = OFFSET_ENTRY.unpack_from(self._data, slot * OFFSET_ENTRY.size)
        return OffsetPosition(self._base_offset + relative, position)


class TimeIndex:
    """Entries (largest timestamp so far, last offset of the batch that has it), timestamps strictly ascending."""

    __slots__ = ("_base_offset", "_data", "_max_entries")

    def __init__(self, base_offset: int, max_bytes: int, data: Buffer = b"") -> None:
        self._base_offset = base_offset
        self._max_entries = max_bytes // TIME_ENTRY.size
        self._data = bytearray(data)

    def __len__(self) -> int:
        return len(self._data) // TIME_ENTRY.size

    @property
    def data(self) -> bytes:
        """The content of the file, exactly sized."""
        return bytes(self._data)

    @property
    def is_full(self) -> bool:
        # One place is kept for the entry that closes the segment.
        return len(self) >= self._max_entries - 1

    @property
    def last(self) -> TimestampOffset:
        return self._entry(len(self) - 1) if self._data else TimestampOffset(NO_TIMESTAMP, self._base_offset)

    def append_if_larger(self, timestamp_ms: int, offset: int) -> None:
        """An entry with no larger timestamp than the last says nothing new."""
        if timestamp_ms > self.last.timestamp_ms:
            self._data += TIME_ENTRY.pack(timestamp_ms, offset - self._base_offset)

    def lookup(self, timestamp_ms: int) -> TimestampOffset:
        """The greatest entry that is not above the timestamp; the beginning of the segment if there is none."""
        slot = _last_at_most(self._data, TIME_ENTRY, 0, timestamp_ms)
        return TimestampOffset(NO_TIMESTAMP, self._base_offset) if slot < 0 else self._entry(slot)

    def truncate(self, offset: int) -> None:
        """Drop every entry at or above the offset."""
        keep = _last_at_most(self._data, TIME_ENTRY, 1, offset - self._base_offset - 1) + 1
        del self._data[keep * TIME_ENTRY.size :]

    def clear(self) -> None:
        self._data.clear()

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
