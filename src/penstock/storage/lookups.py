"""Finding records by their time, segment by segment; each is found as (timestamp, offset)."""

from collections.abc import Sequence

from penstock.storage.segment import Segment


def first_since(segments: Sequence[Segment], timestamp_ms: int, from_offset: int) -> tuple[int, int] | None:
    """The first record that is not older."""
    for segment in segments:
        if segment.largest_timestamp >= timestamp_ms:
            found = segment.find_timestamp(timestamp_ms, from_offset)
            if found is not None:
                return found
    return None


def newest(segments: Sequence[Segment]) -> tuple[int, int] | None:
    """The first record with the largest timestamp."""
    segment = max(segments, key=lambda one: one.largest.timestamp_ms)
    largest = segment.largest
    place = segment.first_batch_to_contain(largest.offset) if largest.timestamp_ms >= 0 else None
    if place is None:
        return None
    for record in segment.read_batch(place).records():
        if record.timestamp_ms == largest.timestamp_ms:
            return record.timestamp_ms, record.offset
    return None
