"""Finding records by offset or by time, segment by segment.

What is looked for by time may lie behind very many batches, or in one that opens to a thousand times its size. So such
a search goes in steps: its driver lets others have a turn between them, and does elsewhere what would take long.
"""

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Final, Protocol, TypeAlias

from levada.records import BatchView, CorruptBatch, DecompressedTooLarge
from levada.storage.header_scan import read_batch
from levada.storage.log_config import LogConfig
from levada.storage.outcomes import FoundRecord
from levada.storage.segment import Segment
from levada.storage.validation import MAX_OPENED_AT_ONCE, most_opened
from levada.world.disk import FileRange

HEADERS_PER_STEP: Final = 100
MAX_LARGE_BATCHES: Final = 16
"""So many may claim in their headers to have what is looked for and not have it."""

Call: TypeAlias = Callable[[], FoundRecord | None]
Search: TypeAlias = Generator[Call | None, FoundRecord | None, FoundRecord | None]
"""Yields None to let others have a turn, or a call that takes long and whose result it is sent."""


class SearchedLog(Protocol):
    start_offset: int
    end_offset: int
    config: LogConfig

    def readable_segments(self) -> Sequence[Segment]:
        """Those that it has now: between the steps of a search some are retired, and others take their place."""
        ...


def locate(segments: Sequence[Segment], base_offsets: Sequence[int], offset: int) -> tuple[Segment, FileRange] | None:
    """The segment and place of the batch that holds an offset, or of the first one behind it."""
    for number in range(max(bisect_right(base_offsets, offset) - 1, 0), len(segments)):
        batch = segments[number].find(offset)
        if batch is not None:
            return segments[number], batch
    return None


def first_since(log: SearchedLog, timestamp_ms: int) -> Search:
    """The first record that is not older; what is appended meanwhile does not make the search longer."""
    from_offset, end_offset, max_opened, large = log.start_offset, log.end_offset, most_opened(log.config), 0
    while from_offset < end_offset:
        segment = _first_from(log.readable_segments(), from_offset)
        if segment is None:
            return None
        next_offset = segment.next_offset
        for batch in _candidates(segment, timestamp_ms, from_offset):
            if batch is None:
                yield None
                continue
            try:
                found = _search(batch, timestamp_ms, from_offset, MAX_OPENED_AT_ONCE)
            except DecompressedTooLarge:
                large += 1
                if large > MAX_LARGE_BATCHES:
                    raise CorruptBatch("too many batches that do not have the time their headers claim") from None
                found = yield _elsewhere(batch, timestamp_ms, from_offset, max_opened)
            if found is not None:
                return found
        from_offset = next_offset
        yield None
    return None


def _first_from(segments: Sequence[Segment], offset: int) -> Segment | None:
    number = bisect_right(segments, offset, key=lambda one: one.next_offset)
    return segments[number] if number < len(segments) else None


def _candidates(segment: Segment, timestamp_ms: int, from_offset: int) -> Iterator[BatchView | None]:
    """The batches whose headers claim a time that is not older; None where others should have a turn."""
    if segment.largest_timestamp < timestamp_ms:
        return
    # During such a turn retention may rename the file, and cleaning give another one its path.
    file = segment.file
    for seen, place in enumerate(segment.headers_since(timestamp_ms, from_offset), 1):
        if place.header.max_timestamp >= timestamp_ms:
            yield read_batch(file, place)
            yield None
        elif seen % HEADERS_PER_STEP == 0:
            yield None


def newest(log: SearchedLog) -> Search:
    """The first record with the largest timestamp."""
    offset = -1
    while (segment := _first_from(log.readable_segments(), offset)) is not None:
        # Each may have to read its index to know; once it does, comparing all of them takes no time.
        offset, _ = segment.next_offset, segment.largest
        yield None
    segment = max(log.readable_segments(), key=lambda one: one.largest.timestamp_ms)
    largest = segment.largest
    place = segment.first_batch_to_contain(largest.offset) if largest.timestamp_ms >= 0 else None
    if place is None:
        return None
    batch = segment.read_batch(place)
    try:
        found = _search(batch, largest.timestamp_ms, 0, MAX_OPENED_AT_ONCE)
    except DecompressedTooLarge:
        found = yield _elsewhere(batch, largest.timestamp_ms, 0, most_opened(log.config))
    return found if found is not None and found.timestamp_ms == largest.timestamp_ms else None


def _search(batch: BatchView, timestamp_ms: int, from_offset: int, max_size: int) -> FoundRecord | None:
    found = batch.first_since(timestamp_ms, from_offset, max_size)
    return None if found is None else FoundRecord(*found, batch.partition_leader_epoch)


def _elsewhere(batch: BatchView, timestamp_ms: int, from_offset: int, max_opened: int) -> Call:
    return lambda: _search(batch, timestamp_ms, from_offset, max_opened)
