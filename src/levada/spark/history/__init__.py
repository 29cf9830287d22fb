"""What happened to data: tables from changes, replays with retraction, comparisons, and where a record came from."""

from levada.spark.history.changes import apply_changes, changes, compacted
from levada.spark.history.differences import Difference, Report
from levada.spark.history.origins import NoSuchRecord, Origin, origins
from levada.spark.history.ranges import RangeError
from levada.spark.history.reconcile import reconcile
from levada.spark.history.replay import Replayed, ReplayRefused, replay
from levada.spark.history.retraction import effective
from levada.spark.history.trace import trace, traced

__all__ = [
    "Difference",  # one key in which two tables differ
    "NoSuchRecord",  # nothing was ever written there
    "Origin",  # a record and what it was made from
    "RangeError",  # a range that cannot be replayed
    "ReplayRefused",  # a replay that would leave wrong output behind
    "Replayed",  # what a replay did
    "Report",  # what a comparison found
    "apply_changes",  # the latest change of each key, for a table that is kept up to date
    "changes",  # the current table of a topic of changes
    "compacted",  # changes as a compacted topic keeps them
    "effective",  # a topic without what was retracted
    "origins",  # where a record came from
    "reconcile",  # compares two tables
    "replay",  # computes a part of a topic once more
    "trace",  # stamps rows with where they came from
    "traced",  # the same in an aggregation
]
