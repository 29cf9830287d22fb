"""Which part of a log should be cleaned, and how much it needs it."""

from dataclasses import dataclass

from levada.storage.log import Log
from levada.storage.log_config import NEVER
from levada.storage.segment import Segment


@dataclass(frozen=True, slots=True)
class DirtyPart:
    first_dirty: int
    first_uncleanable: int
    clean_bytes: int
    dirty_bytes: int
    overdue_ms: int
    """How much longer something in it has waited than it may; 0 where nothing has."""

    @property
    def ratio(self) -> float:
        """What share of the bytes that a pass would read is new."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def dirty_part(log: Log, clean_until: int | None, now_ms: int) -> DirtyPart:
    """What lies between where the last pass ended and what may not be cleaned yet."""
    config = log.config
    first_dirty = log.start_offset if clean_until is None else clean_until
    if not log.start_offset <= first_dirty <= log.end_offset:
        first_dirty = log.start_offset
    closed = log.segments[:-1]
    bounds = [log.last_stable_offset, log.active.base_offset]
    dirty = [segment for segment in closed if segment.next_offset > first_dirty]
    if config.min_compaction_lag_ms > 0:
        young_ms = now_ms - config.min_compaction_lag_ms
        bounds += [segment.base_offset for segment in dirty if segment.largest_timestamp > young_ms][:1]
    # Segments are cleaned as a whole: the one that holds the bound waits, for what is behind it may yet be aborted.
    whole = [segment.base_offset for segment in log.segments if segment.base_offset <= min(bounds)]
    first_uncleanable = max(first_dirty, *whole)
    cleanable = [segment for segment in dirty if segment.base_offset < first_uncleanable]
    return DirtyPart(
        first_dirty=first_dirty,
        first_uncleanable=first_uncleanable,
        clean_bytes=sum(segment.size for segment in closed if segment.next_offset <= first_dirty),
        dirty_bytes=sum(segment.size for segment in cleanable),
        overdue_ms=_overdue_ms(cleanable, config.max_compaction_lag_ms, now_ms),
    )


def _overdue_ms(segments: list[Segment], lag_ms: int, now_ms: int) -> int:
    if lag_ms == NEVER or not segments:
        return 0
    oldest_ms = min(segment.first_timestamp for segment in segments)
    return max(now_ms - oldest_ms - lag_ms, 0)
