"""One file of a log: record batches back to back, with a sparse index of where they lie."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.model.buffers import Buffer
from penstock.records.batch import HEADER_SIZE, BatchView
from penstock.world.disk import File

INDEX_INTERVAL_BYTES = 4096
SCAN_WINDOW_BYTES = 1024 * 1024
NO_TIMESTAMP = -1


@dataclass(frozen=True, slots=True)
class BatchPlace:
    """Where a batch lies in its segment, and what its header says."""

    position: int
    header: BatchView


class Segment:
    """Appends to the file and finds batches in it."""

    def __init__(self, file: File, base_offset: int) -> None:
        self.file = file
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size = 0
        self.max_timestamp = NO_TIMESTAMP
        self._indexed_offsets: list[int] = []
        self._indexed_positions: list[int] = []
        self._bytes_since_entry = 0

    def append(self, pieces: Sequence[Buffer], size: int, last_offset: int, max_timestamp: int) -> None:
        """Write one batch; on any failure the file has its old end again, or OSError says that it has not."""
        try:
            written = self.file.append(pieces)
        except OSError:
            self.file.truncate(self.size)
            raise
        if written != size:
            self.file.truncate(self.size)
            raise OSError(f"{self.file.path}: the disk took {written} of {size} bytes")
        self.note(size, last_offset, max_timestamp)

    def note(self, size: int, last_offset: int, max_timestamp: int) -> None:
        """Account for a batch that lies at the end of the file."""
        if self._bytes_since_entry > INDEX_INTERVAL_BYTES:
            self._indexed_offsets.append(last_offset)
            self._indexed_positions.append(self.size)
            self._bytes_since_entry = 0
        self._bytes_since_entry += size
        self.size += size
        self.next_offset = last_offset + 1
        self.max_timestamp = max(self.max_timestamp, max_timestamp)

    def first_batch_to_contain(self, offset: int) -> BatchPlace | None:
        """The first batch whose last offset is at or past `offset`."""
        entry = bisect_right(self._indexed_offsets, offset) - 1
        start = self._indexed_positions[entry] if entry >= 0 else 0
        return next((place for place in self.headers(start) if place.header.last_offset >= offset), None)

    def headers(self, position: int = 0) -> Iterator[BatchPlace]:
        """The headers of all batches from a batch boundary on."""
        window, window_start = b"", position
        while position < self.size:
            relative = position - window_start
            if relative + HEADER_SIZE > len(window):
                window = self.file.read(position, min(SCAN_WINDOW_BYTES, self.size - position))
                window_start, relative = position, 0
            header = BatchView(window, relative)
            yield BatchPlace(position, header)
            position += header.size

    def read_batch(self, place: BatchPlace) -> BatchView:
        """A whole batch in memory."""
        return BatchView(self.file.read(place.position, place.header.size), 0)
