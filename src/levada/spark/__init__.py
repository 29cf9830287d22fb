"""Topics in Spark: sessions, streams of rows with dead letters, history, pipelines."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from levada.spark.history import (
        Report,
        apply_changes,
        changes,
        compacted,
        effective,
        origins,
        reconcile,
        replay,
        trace,
        traced,
    )
    from levada.spark.rows import (
        QualityCounts,
        Rows,
        RowsError,
        check,
        deduplicate,
        expire_after,
        fresh,
        in_range,
        matches,
        not_null,
        parse,
        quality,
        quality_counts,
        read,
        route,
        unique,
        write,
        write_dead_letters,
    )
    from levada.spark.sessions import session

__all__ = [
    "QualityCounts",  # counts broken rules of all queries
    "Report",  # what a comparison found
    "Rows",  # good and rejected rows in one frame
    "RowsError",  # a step that cannot be taken, in one line
    "apply_changes",  # the latest change of each key, for a table that is kept up to date
    "changes",  # the current table of a topic of changes
    "check",  # a rule: a condition in SQL
    "compacted",  # changes as a compacted topic keeps them
    "deduplicate",  # drops repetitions
    "effective",  # a topic without what was retracted
    "expire_after",  # rejects what is too old
    "fresh",  # a rule: not older than
    "in_range",  # a rule: between two values
    "matches",  # a rule: a regular expression
    "not_null",  # a rule: there is a value
    "origins",  # where a record came from
    "parse",  # a frame of the data source as rows
    "quality",  # rejects what breaks rules, and counts it
    "quality_counts",  # how often each rule was broken
    "read",  # a topic as rows
    "reconcile",  # compares two tables
    "replay",  # computes a part of a topic once more
    "route",  # a topic for each row
    "session",  # a Spark with everything set
    "trace",  # stamps rows with where they came from
    "traced",  # the same in an aggregation
    "unique",  # a rule: no second row with these values
    "write",  # rows to topics
    "write_dead_letters",  # the rejected rows alone
]

_HOMES = {
    "levada.spark.history": (
        "Report",
        "apply_changes",
        "changes",
        "compacted",
        "effective",
        "origins",
        "reconcile",
        "replay",
        "trace",
        "traced",
    ),
    "levada.spark.rows": (
        "QualityCounts",
        "Rows",
        "RowsError",
        "check",
        "deduplicate",
        "expire_after",
        "fresh",
        "in_range",
        "matches",
        "not_null",
        "parse",
        "quality",
        "quality_counts",
        "read",
        "route",
        "unique",
        "write",
        "write_dead_letters",
    ),
    "levada.spark.sessions": ("session",),
}


def __getattr__(name: str) -> Any:
    # Loaded when asked for: Spark starts a Python for each task, which needs the source or the sink alone.
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'levada.spark' has no attribute {name!r}")
