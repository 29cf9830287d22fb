"""The progress of running queries, as lines for a terminal."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TextIO

from levada.client.types import TopicPartition
from levada.spark.source.offsets import GROUP, parse_progress

UP: Final = "\x1b[{}A"
CLEAR: Final = "\x1b[2K"
SCALES: Final = ((1_000_000, "M"), (1_000, "k"))

Offsets = Any
"""As a source writes them: numbers inside of mappings."""


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """One query after its last batch; `lag` is None if no source can tell."""

    name: str
    batch: int
    rows: int
    """All that it has read in this run."""
    events_per_second: float
    """What it has read of late, by the clock."""
    batch_ms: int
    lag: int | None
    """In records; what Spark says of it is as old as the batch."""
    note: str = ""
    timestamp: str = ""
    """When the batch began."""
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The next record to read of each partition of topics."""
    lag_s: float | None = None
    """In seconds of its input, if that is known."""


def progress_of(name: str, report: Mapping[str, Any], note: str = "", rows: int = 0) -> QueryProgress:
    """From Spark's own report, as its JSON has it, and the rows of all reports."""
    durations = report.get("durationMs") or {}
    return QueryProgress(
        name=name,
        batch=int(report.get("batchId", -1)),
        rows=rows,
        events_per_second=0.0,
        batch_ms=int(durations.get("triggerExecution") or report.get("batchDuration") or 0),
        lag=_lag(report.get("sources") or []),
        note=note,
        timestamp=str(report.get("timestamp") or ""),
        offsets=_offsets(report.get("sources") or []),
    )


def line(progress: QueryProgress, width: int = 16) -> str:
    """Such as `totals            batch 12   3.4k events/s   lag 12.0k (3.5 s)   840 ms`."""
    parts = [
        progress.name.ljust(width),
        f"batch {progress.batch}".ljust(11) if progress.batch >= 0 else "starting".ljust(11),
        f"{short(progress.events_per_second)} events/s".rjust(15),
        _lag_text(progress.lag, progress.lag_s).rjust(20),
        f"{progress.batch_ms} ms".rjust(10),
    ]
    return "  ".join([*parts, progress.note] if progress.note else parts).rstrip()


def heading(progress: Sequence[QueryProgress], events_per_second: float) -> str:
    """All of them in one line, such as `9 queries  1.2k events/s  lag 300 (0.7 s)  slowest batch paid 410 ms`.

    What comes in is counted once, however many queries read it; the seconds are those of the query that is most behind.
    """
    slowest = max(progress, key=lambda one: one.batch_ms, default=None)
    if slowest is None:
        return f"{short(events_per_second)} events/s"
    lags = [one.lag for one in progress if one.lag is not None]
    behind = [one.lag_s for one in progress if one.lag is not None]
    parts = [
        f"{len(progress)} queries",
        f"{short(events_per_second)} events/s",
        _lag_text(sum(lags) if lags else None, _longest(behind)),
    ]
    return "  ".join([*parts, f"slowest batch {slowest.name} {slowest.batch_ms} ms"] if slowest.batch >= 0 else parts)


def _longest(seconds: Sequence[float | None]) -> float | None:
    """None if it may be one that is not known."""
    known = [one for one in seconds if one is not None]
    return max(known) if known and len(known) == len(seconds) else None


def _lag_text(lag: int | None, seconds: float | None) -> str:
    if lag is None:
        return "lag -"
    return f"lag {short(lag)}" if seconds is None else f"lag {short(lag)} ({seconds:.1f} s)"


def short(number: float) -> str:
    """At most three figures before the point: 950, 12.3k, 1.2M."""
    for scale, letter in SCALES:
        if number >= scale:
            return f"{number / scale:.1f}{letter}"
    return f"{number:.0f}"


class Display:
    """A line about all queries and one about each, written over on a terminal, below each other anywhere else."""

    def __init__(self, stream: TextIO, *, is_terminal: bool, columns: int = 120) -> None:
        self._stream = stream
        self._is_terminal = is_terminal
        self._columns = columns
        self._shown = 0

    def show(self, progress: Sequence[QueryProgress], events_per_second: float, before: str = "") -> None:
        """`before` is what to say ahead of the line about all of them."""
        width = max((len(one.name) for one in progress), default=0)
        lines = [line(one, width) for one in progress]
        if before or len(progress) != 1:
            lines.insert(0, before + heading(progress, events_per_second))
        if not self._is_terminal:
            self._stream.write("".join(f"{text}\n" for text in lines))
        else:
            up = UP.format(self._shown) if self._shown else ""
            # A line that wraps would be two, and the next writing would start too low.
            self._stream.write(up + "".join(f"{CLEAR}{text[: self._columns - 1]}\n" for text in lines))
            self._shown = len(lines)
        self._stream.flush()


def distance(start: Offsets, end: Offsets) -> int | None:
    """How far the numbers of one offset are from those of another; None if they have none in common."""
    if isinstance(start, int) and isinstance(end, int):
        return max(0, end - start)
    if isinstance(start, Mapping) and isinstance(end, Mapping):
        apart = [distance(start.get(key, 0 if isinstance(end[key], int) else {}), end[key]) for key in end]
        known = [one for one in apart if one is not None]
        return sum(known) if known else None
    return None


def _lag(sources: Sequence[Mapping[str, Any]]) -> int | None:
    known = [one for one in map(_source_lag, sources) if one is not None]
    return sum(known) if known else None


def _source_lag(source: Mapping[str, Any]) -> int | None:
    return distance(_parsed(source.get("endOffset")), _parsed(source.get("latestOffset")))


def _offsets(sources: Sequence[Mapping[str, Any]]) -> dict[TopicPartition, int]:
    """Where a topic is read twice, what both have read."""
    ends: dict[TopicPartition, int] = {}
    for partition, offset in _ends_of(sources):
        ends[partition] = min(offset, ends.get(partition, offset))
    return ends


def _ends_of(sources: Sequence[Mapping[str, Any]]) -> Iterator[tuple[TopicPartition, int]]:
    for source in sources:
        found = _parsed(source.get("endOffset"))
        # Sources of other kinds have offsets of other shapes.
        progress = parse_progress(found) if isinstance(found, Mapping) and GROUP in found else None
        if progress is not None:
            yield from progress.ends.items()


def _parsed(offsets: Any) -> Any:
    """Spark writes some sources' offsets as text, others' as what that text says."""
    if not isinstance(offsets, str):
        return offsets
    try:
        return json.loads(offsets)
    except ValueError:
        return None
