"""Which of a log's oldest segments may go: by its start, by size, by age."""

from collections.abc import Callable, Sequence

from penstock.storage.log import Log
from penstock.storage.log_config import LogConfig
from penstock.storage.segment import Segment

UNLIMITED = -1


def delete_old_segments(log: Log) -> int:
    """Retire segments that lie wholly below the log's start; returns how many."""
    count = below_start(log.segments, log.start_offset, log.end_offset, log.high_watermark)
    log.retire_oldest(count)
    return count


def apply_retention(log: Log, now_ms: int) -> int:
    """Retire the oldest segments as the configuration says; returns how many."""
    count = delete_old_segments(log)
    if not log.config.deletes_old_segments:
        return count
    size, end = over_size(log.segments, log.config, log.end_offset, log.high_watermark), log.end_offset
    count += _expire(log, size, now_ms)
    old = too_old(log.segments, log.config, end, log.high_watermark, now_ms)
    return count + _expire(log, old, now_ms)


def _expire(log: Log, count: int, now_ms: int) -> int:
    if not count:
        return 0
    if count == len(log.segments):
        # A log always has a segment to append to.
        log.roll(log.end_offset, now_ms)
    log.raise_start(log.segments[count].base_offset)
    log.retire_oldest(count)
    return count


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
