"""Finding records by their time, segment by segment."""

from collections.abc import Sequence

from penstock.storage.outcomes import FoundRecord
from penstock.storage.segment import Segment


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
