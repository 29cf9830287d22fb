"""Which of a log's oldest segments may go: by its start, by size, by age."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from levada.model.errors import KafkaStorageError
from levada.storage.log import Log
from levada.storage.log_config import LogConfig
from levada.storage.segment import Segment
from levada.world.disk import is_out_of_files

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Due:
    """The oldest segments that are left, so many, may go."""

    count: int
    reason: str


def expire(log: Log, now_ms: int) -> list[Due]:
    """Begin the log behind what may go; `retire` takes it.

    In between, where the log begins should be brought to the device: a power cut among the renames may bring back an
    older segment and not a younger one, and what the opening finds below the start it removes.
    """
    due = _below_start(log)
    config = log.config
    if not config.deletes_old_segments:
        return due
    gone = sum(one.count for one in due)
    large = over_size(log.segments[gone:], config, log.end_offset, log.high_watermark)
    due += _begin_behind(log, gone, large, now_ms, f"retention size {config.retention_bytes} bytes breached")
    gone += large
    old = too_old(log.segments[gone:], config, log.end_offset, log.high_watermark, now_ms)
    return due + _begin_behind(log, gone, old, now_ms, f"retention time {config.retention_ms} ms breached")


def retire(log: Log, due: list[Due]) -> int:
    """Take from a log what has expired; returns how many segments."""
    return sum(_retire(log, one.count, one.reason) for one in due)


def _below_start(log: Log) -> list[Due]:
    count = below_start(log.segments, log.start_offset, log.end_offset, log.high_watermark)
    return [Due(count, f"log start offset {log.start_offset} breached")] if count else []


def _begin_behind(log: Log, gone: int, count: int, now_ms: int, reason: str) -> list[Due]:
    if not count:
        return []
    if gone + count == len(log.segments):
        # A log always has a segment to append to.
        log.roll(log.end_offset, now_ms)
    # Readers must not be sent to a segment that is on its way out.
    log.raise_start(log.segments[gone + count].base_offset)
    return [Due(count, reason)]


def _retire(log: Log, count: int, reason: str) -> int:
    try:
        for segment in log.segments[:count]:
            _say_why(log, segment, reason)
        log.retire_oldest(count)
    except OSError as error:
        if not is_out_of_files(error):
            # Some files have their other name and others not; the next start finds a log that begins behind them.
            log.go_offline(error)
        raise KafkaStorageError(f"cannot retire segments of {log.directory}: {error}") from error
    return count


def _say_why(log: Log, segment: Segment, reason: str) -> None:
    logger.info(
        "retired segment log=%s base_offset=%d bytes=%d largest_timestamp_ms=%d last_modified_ms=%d reason=%r",
        log.directory,
        segment.base_offset,
        segment.size,
        segment.largest.timestamp_ms,
        segment.file.modified_ms(),
        reason,
    )


def below_start(segments: Sequence[Segment], start_offset: int, end_offset: int, high_watermark: int) -> int:
    """How many segments lie wholly below the log's start."""

    def is_below(number: int) -> bool:
        return number + 1 < len(segments) and segments[number + 1].base_offset <= start_offset

    return _count(segments, end_offset, high_watermark, is_below)


def over_size(segments: Sequence[Segment], config: LogConfig, end_offset: int, high_watermark: int) -> int:
    """How many segments can go before the log would be smaller than it may be."""
    excess = sum(segment.size for segment in segments) - config.retention_bytes
    if config.retention_bytes < 0 or excess < 0:
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
    if config.retention_ms < 0:
        return 0

    def is_old(number: int) -> bool:
        newest_ms = segments[number].largest_timestamp
        if newest_ms > now_ms:
            # It keeps all that follows too, for as long as it takes; a wrong unit in a producer looks like this.
            path = segments[number].path(".log")
            logger.warning("timestamp ahead of the clock file=%s largest_timestamp_ms=%d; it is kept", path, newest_ms)
        return now_ms - newest_ms > config.retention_ms

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
