"""Walks a segment from its first byte and stops at the first batch that is not whole and sound."""

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.records.batch import HEADER_SIZE, MAGIC, BatchView
from penstock.world.disk import File

WINDOW_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Cut:
    """What recovery took off the end of a file, and why."""

    path: str
    kept_bytes: int
    lost_bytes: int
    reason: str


class TornTail(Exception):
    """The walk met bytes that are no batch; `position` is the end of the last good one."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(reason)
        self.position = position


def sound_batches(file: File, next_offset: int) -> Iterator[BatchView]:
    """Every batch of the file in order, each checked against its CRC; TornTail at the first that fails."""
    size = file.size()
    position = 0
    window, window_start = memoryview(b""), 0
    while position < size:
        relative = position - window_start
        needed = _batch_size(window[relative:]) if relative + HEADER_SIZE <= len(window) else HEADER_SIZE
        if relative + needed > len(window):
            if position + needed > size:
                raise TornTail(position, f"{size - position} bytes where a batch of {needed} begins")
            window = memoryview(file.read(position, min(max(WINDOW_BYTES, needed), size - position)))
            window_start, relative = position, 0
            if _batch_size(window) > needed:
                continue
        batch = BatchView(window, relative)
        _check(batch, position, next_offset)
        yield batch
        next_offset = batch.next_offset
        position += batch.size


def _batch_size(window: memoryview) -> int:
    """What the length field claims, at least a header."""
    return max(12 + int.from_bytes(window[8:12], "big", signed=True), HEADER_SIZE)


def _check(batch: BatchView, position: int, next_offset: int) -> None:
    if batch.size < HEADER_SIZE or batch.magic != MAGIC:
        raise TornTail(position, f"no batch of magic 2 (size {batch.size}, magic {batch.magic})")
    if batch.base_offset < next_offset or batch.last_offset_delta < 0:
        raise TornTail(position, f"offset {batch.base_offset} where at least {next_offset} was expected")
    if not batch.crc_is_valid():
        raise TornTail(position, f"the batch at offset {batch.base_offset} does not match its CRC")
