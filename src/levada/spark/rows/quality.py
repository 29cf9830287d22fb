"""Rows held against rules: violations are counted and rejected."""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import count
from threading import Lock
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, Row
from pyspark.sql import functions as sf
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from levada.spark.rows.kept import Kind, default_timestamp, frame_of, untouched
from levada.spark.rows.problems import RowsError, columns_of, refuse_unusable
from levada.spark.rows.repeats import mark_repeats
from levada.spark.rows.rules import Condition, Rule, Unique

STAGE = "quality"
BROKEN = "_broken"
REPEATED = "_quality_repeated_"
PREFIX = "levada.quality:"
"""The names of our metrics in a query's progress begin so."""
CHECKED = "rows"
"""The metric beside those of the rules: how many rows were held against them."""

_step_numbers = count(1)


def quality(rows: Kind, rules: Iterable[Rule], *, name: str | Observation | None = None) -> Kind:
    """Reject rows that break a rule, with all broken rules in the reason, and count violations by rule.

    The counts are metrics of the query, in the field `observedMetrics` of its progress, under
    `levada.quality:<name>`: `quality_counts` and `QualityCounts` read them there. Without a name each step has one of
    its own, as two of one query must not share theirs. For a batch, `name` may be an Observation of Spark's, which has
    the counts when the batch is done. A plain DataFrame has no dead letters: violations are counted and left out of it.
    """
    metric = name if isinstance(name, Observation) else PREFIX + (name or f"step-{next(_step_numbers)}")
    held = list(rules)
    _refuse_rules(held)
    frame, columns = _with_repeats(frame_of(rows), held, untouched(rows))
    broken = {}
    for rule in held:
        is_broken = ~rule.holds(frame) if isinstance(rule, Condition) else sf.col(columns[rule.name])
        refuse_unusable(frame, is_broken, f"rule {rule.name!r}")
        broken[rule.name] = ~untouched(rows) & sf.coalesce(is_broken, sf.lit(False))
    names = [sf.when(is_broken, sf.lit(rule_name)) for rule_name, is_broken in broken.items()]
    marked = frame.withColumn(BROKEN, sf.array_compact(sf.array(*names)))
    observed = marked.observe(metric, *_counts(rows, broken)).drop(*columns.values())
    is_broken = sf.size(BROKEN) > 0
    if isinstance(rows, DataFrame):
        return observed.where(~is_broken).drop(BROKEN)
    reason = sf.concat(sf.lit("broken rules: "), sf.array_join(BROKEN, ", "))
    observed_rows = rows.with_frame(observed)
    if not all(rule.is_repeatable for rule in held):
        observed_rows = observed_rows.unrepeatable()
    rejected = observed_rows.reject(is_broken, reason, STAGE)
    return rejected.with_frame(rejected.frame.drop(BROKEN))


def quality_counts(query: StreamingQuery) -> dict[str, int]:
    """Violations by rule, and `rows` that were checked, over the batches whose progress Spark still has.

    That is the last hundred (`spark.sql.streaming.numRecentProgressUpdates`); `QualityCounts` counts all.
    """
    counts: Counter[str] = Counter()
    for progress in query.recentProgress:
        counts.update(_in_progress(progress.observedMetrics))
    return dict(counts)


class QualityCounts(StreamingQueryListener):
    """Counts of all queries of a session from now on: `spark.streams.addListener(counts := QualityCounts())`."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {}
        self._lock = Lock()

    def of(self, query: StreamingQuery) -> dict[str, int]:
        """Violations by rule, and `rows` that were checked, since the query was started."""
        with self._lock:
            return dict(self._counts.get(str(query.runId), {}))

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing to count yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        with self._lock:
            self._counts.setdefault(str(event.progress.runId), Counter()).update(
                _in_progress(event.progress.observedMetrics)
            )

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """The counts stay, for readers after the query's end."""


def _refuse_rules(rules: list[Rule]) -> None:
    if not rules:
        raise RowsError("quality: name at least one rule, such as not_null('id')")
    names = [rule.name for rule in rules]
    for name in names:
        if names.count(name) > 1:
            raise RowsError(f"quality: there are two rules {name!r}; put the second into a step with another name")
        if name == CHECKED:
            raise RowsError(f"quality: a rule cannot be called {CHECKED!r}, which counts the rows")


def _with_repeats(frame: DataFrame, rules: list[Rule], exempt: Column) -> tuple[DataFrame, dict[str, str]]:
    """The frame with a mark for each rule of uniqueness, and the names of these columns."""
    columns: dict[str, str] = {}
    for rule in rules:
        if not isinstance(rule, Unique):
            continue
        keys = columns_of(frame, rule.keys, rule.name)
        has_null = exempt
        for key in keys:
            has_null = has_null | key.isNull()
        columns[rule.name] = f"{REPEATED}{len(columns)}"
        frame = mark_repeats(
            frame,
            keys,
            rule.within_ms,
            timestamp=default_timestamp(frame, rule.timestamp, rule.name),
            exempt=has_null,
            mark=columns[rule.name],
        )
    return frame, columns


def _counts(rows: Any, broken: Mapping[str, Column]) -> list[Column]:
    checked = sf.count_if(~untouched(rows)).alias(CHECKED)
    return [checked, *(sf.count_if(is_broken).alias(rule) for rule, is_broken in broken.items())]


def _in_progress(observed: Mapping[str, Any]) -> dict[str, int]:
    """Of a rule that several steps have, all violations; the rows are those of the step that had most."""
    steps = [_fields(row) for name, row in observed.items() if name.startswith(PREFIX)]
    counts: Counter[str] = Counter()
    for step in steps:
        counts.update(step)
    return {**counts, CHECKED: max(step[CHECKED] for step in steps)} if steps else {}


def _fields(row: Row) -> dict[str, int]:
    """Spark Connect gives a row of its schema and its values, where one of the fields is meant."""
    fields = row.asDict()
    if fields.keys() == {"values", "schema"}:
        return dict(zip((field["name"] for field in fields["schema"]["fields"]), fields["values"]))
    return fields
