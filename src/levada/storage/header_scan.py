"""From batch to batch through a segment's file, by their headers."""

from collections.abc import Iterator
from typing import NamedTuple

from levada.model.errors import KafkaStorageError
from levada.records.batch import HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, BatchView
from levada.storage.read_window import EXTENT
from levada.world.disk import File, FileRange

FIRST_WINDOW_BYTES = 512
"""Mostly one of the first few batches is wanted; a search that goes on reads larger pieces."""
SCAN_WINDOW_BYTES = 64 * 1024


class BatchPlace(NamedTuple):
    """Where a batch lies in its segment, and what its header says."""

    position: int
    header: BatchView


class WrongEntry(Exception):
    """An index entry that does not point at its batch."""


def find_batch(
    file: File, size: int, offset: int, position: int = 0, expected_last: int | None = None
) -> FileRange | None:
    """The first batch at or behind a position that reaches an offset; the first one there must end as expected."""
    window, window_start, window_bytes = b"", position, FIRST_WINDOW_BYTES
    while position < size:
        relative = position - window_start
        if relative + HEADER_SIZE > len(window):
            window = _read_window(file, size, position, window_bytes)
            window_start, relative, window_bytes = position, 0, min(8 * window_bytes, SCAN_WINDOW_BYTES)
        base_offset, length, magic, last_offset_delta = EXTENT.unpack_from(window, relative)
        batch_size = length + LENGTH_OVERHEAD
        if batch_size < HEADER_SIZE or position + batch_size > size or magic != MAGIC:
            raise KafkaStorageError(f"{file.path} is damaged at {position}")
        last_offset = base_offset + last_offset_delta
        if expected_last is not None and last_offset != expected_last:
            raise WrongEntry
        if last_offset >= offset:
            return FileRange(file, position, batch_size)
        expected_last = None
        position += batch_size
    if expected_last is not None:
        raise WrongEntry
    return None


def headers(file: File, size: int, position: int = 0) -> Iterator[BatchPlace]:
    """The headers of all batches from a batch boundary on."""
    window, window_start, window_bytes = b"", position, FIRST_WINDOW_BYTES
    while position < size:
        relative = position - window_start
        if relative + HEADER_SIZE > len(window):
            window = _read_window(file, size, position, window_bytes)
            window_start, relative, window_bytes = position, 0, min(8 * window_bytes, SCAN_WINDOW_BYTES)
        header = BatchView(window, relative)
        if header.size < HEADER_SIZE or position + header.size > size or header.magic != MAGIC:
            raise KafkaStorageError(f"{file.path} is damaged at {position}")
        yield BatchPlace(position, header)
        position += header.size


def read_batch(file: File, place: BatchPlace) -> BatchView:
    """A whole batch in memory."""
    data = file.read(place.position, place.header.size)
    if len(data) < place.header.size:
        raise KafkaStorageError(f"{file.path} ends in the middle of a batch at {place.position}")
    return BatchView(data)


def _read_window(file: File, size: int, position: int, wanted: int) -> bytes:
    window = file.read(position, min(wanted, size - position))
    if len(window) < HEADER_SIZE:
        raise KafkaStorageError(f"{file.path} ends in the middle of a batch at {position}")
    return window
