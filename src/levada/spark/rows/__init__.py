"""Functions over rows: topics as rows and back, dead letters, expiry, duplicates, routes, quality."""

from levada.spark.rows.expiry import expire_after
from levada.spark.rows.kept import Rows
from levada.spark.rows.problems import RowsError
from levada.spark.rows.quality import QualityCounts, quality, quality_counts
from levada.spark.rows.reading import parse, read
from levada.spark.rows.repeats import deduplicate
from levada.spark.rows.routing import route
from levada.spark.rows.rules import check, fresh, in_range, matches, not_null, unique
from levada.spark.rows.writing import write, write_dead_letters

__all__ = [
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
]
