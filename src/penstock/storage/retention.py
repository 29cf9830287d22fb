"""Which of a log's oldest segments may go: by its start, by size, by age."""

from collections.abc import Callable, Sequence

from penstock.storage.log_config import LogConfig
from penstock.storage.segment import Segment

UNLIMITED = -1


def below_start(segments: Sequence[Segment], start_offset: int, end_offset: int, high_watermark: int) -> int:
    """How many segments lie wholly below the log's start."""

    def is_below(number: int) -> bool:
        return number + 1 < len(segments) and segments[number + 1].base_offset <= start_offset

    return _count(segments, end_offset, high_watermark, is_below)


def over_size(segments: Sequence[Segment], config: LogConfig, end_offset: int, high_watermark: int) -> int:
    """How many segments can go before the log would be smaller than it may be."""
    excess = sum(segment.size for segment in segments) - config.retention_bytes
    if config.retention_bytes == UNLIMITED or excess < 0:
        return 0

    def is_excess(number: int) -> bool:
        nonlocal excess
        if excess - segments[number].size < 0:
            return False
        excess -= segments[number].size
        return True

    return _count(segments, end_offset, high_watermark, is_excess)


def too_old(segments: Sequence[Segment], config: LogConfig, end_offset: int, high_watermark: int, now_ms: int) -> int:
    """How many segments have only records that are older than they may be."""
    if config.retention_ms == UNLIMITED:
        return 0

    def is_old(number: int) -> bool:
        return now_ms - segments[number].largest_timestamp > config.retention_ms

    return _count(segments, end_offset, high_watermark, is_old)


def _count(segments: Sequence[Segment], end_offset: int, high_watermark: int, is_due: Callable[[int], bool]) -> int:
    """The oldest segments in a row that are due; none that readers may not have seen, and no empty last one."""
    count = 0
    for number, segment in enumerate(segments):
        is_last = number + 1 == len(segments)
        upper = end_offset if is_last else segments[number + 1].base_offset
        if (is_last and segment.size == 0) or upper > high_watermark or not is_due(number):
            break
        count += 1
    return count
