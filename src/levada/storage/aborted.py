"""Finds the aborted transactions that readers of committed records must skip."""

from bisect import bisect_right
from collections.abc import Sequence

from levada.storage.formats import AbortedTransaction
from levada.storage.segment import Segment


def aborted_between(segments: Sequence[Segment], start_offset: int, upper_offset: int) -> list[AbortedTransaction]:
    """Those with records in a range."""
    found: list[AbortedTransaction] = []
    first = max(bisect_right(segments, start_offset, key=_base_offset) - 1, 0)
    for segment in segments[first:]:
        collected = segment.transactions.collect(start_offset, upper_offset)
        found += collected.transactions
        if collected.is_complete:
            break
    return found


def end_of_read(segments: Sequence[Segment], segment: Segment, end_position: int, end_offset: int) -> int:
    """An offset behind all that lies in a segment before a position, found without reading the log."""
    entry = segment.first_entry_behind(end_position)
    if entry is not None:
        return entry.offset
    following = bisect_right(segments, segment.base_offset, key=_base_offset)
    return segments[following].base_offset if following < len(segments) else end_offset


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
