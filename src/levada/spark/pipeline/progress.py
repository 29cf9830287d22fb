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
    rows_per_second: float
    batch_ms: int
    lag: int | None
    note: str = ""
    timestamp: str = ""
    """When the batch began."""
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The next record to read of each partition of topics."""


def progress_of(name: str, report: Mapping[str, Any], note: str = "") -> QueryProgress:
    """From Spark's own report, as its JSON has it."""
    durations = report.get("durationMs") or {}
    return QueryProgress(
        name=name,
        batch=int(report.get("batchId", -1)),
        rows=int(report.get("numInputRows") or 0),
        rows_per_second=float(report.get("processedRowsPerSecond") or 0.0),
        batch_ms=int(durations.get("triggerExecution") or report.get("batchDuration") or 0),
        lag=_lag(report.get("sources") or []),
        note=note,
        timestamp=str(report.get("timestamp") or ""),
        offsets=_offsets(report.get("sources") or []),
    )


def line(progress: QueryProgress, width: int = 16) -> str:
    """Such as `totals            batch 12   3.4k rows/s   lag 12.0k   840 ms`."""
    parts = [
        progress.name.ljust(width),
        f"batch {progress.batch}".ljust(11) if progress.batch >= 0 else "starting".ljust(11),
        f"{short(progress.rows_per_second)} rows/s".rjust(13),
        f"lag {short(progress.lag) if progress.lag is not None else '-'}".rjust(11),
        f"{progress.batch_ms} ms".rjust(10),
    ]
    return "  ".join([*parts, progress.note] if progress.note else parts).rstrip()


def heading(progress: Sequence[QueryProgress]) -> str:
    """All of them in one line, such as `9 queries  1.2k rows/s  lag 300  slowest batch paid 410 ms`."""
    slowest = max(progress, key=lambda one: one.batch_ms)
    lags = [one.lag for one in progress if one.lag is not None]
    parts = [
        f"{len(progress)} queries",
        f"{short(sum(one.rows_per_second for one in progress))} rows/s",
        f"lag {short(sum(lags)) if lags else '-'}",
    ]
    return "  ".join([*parts, f"slowest batch {slowest.name} {slowest.batch_ms} ms"] if slowest.batch >= 0 else parts)


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

    def show(self, progress: Sequence[QueryProgress], head: str | None = None) -> None:
        """`head` is what to say of all of them."""
        width = max((len(one.name) for one in progress), default=0)
        lines = [line(one, width) for one in progress]
        if head is not None or len(progress) > 1:
            lines.insert(0, head or heading(progress))
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
