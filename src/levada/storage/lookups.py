"""Finding records by offset or by time, segment by segment."""

from bisect import bisect_right
from collections.abc import Sequence

from levada.storage.outcomes import FoundRecord
from levada.storage.segment import Segment
from levada.world.disk import FileRange


def locate(segments: Sequence[Segment], base_offsets: Sequence[int], offset: int) -> tuple[Segment, FileRange] | None:
    """The segment and place of the batch that holds an offset, or of the first one behind it."""
    for number in range(max(bisect_right(base_offsets, offset) - 1, 0), len(segments)):
        batch = segments[number].find(offset)
        if batch is not None:
            return segments[number], batch
    return None


def first_since(segments: Sequence[Segment], timestamp_ms: int, from_offset: int) -> FoundRecord | None:
    """The first record that is not older."""
    for segment in segments:
        if segment.largest_timestamp >= timestamp_ms:
            found = segment.find_timestamp(timestamp_ms, from_offset)
            if found is not None:
                return found
    return None


def newest(segments: Sequence[Segment]) -> FoundRecord | None:
    """The first record with the largest timestamp."""
    segment = max(segments, key=lambda one: one.largest.timestamp_ms)
    largest = segment.largest
    place = segment.first_batch_to_contain(largest.offset) if largest.timestamp_ms >= 0 else None
    if place is None:
        return None
    batch = segment.read_batch(place)
    for record in batch.records():
        if record.timestamp_ms == largest.timestamp_ms:
            return FoundRecord(record.offset, record.timestamp_ms, batch.partition_leader_epoch)
    return None
