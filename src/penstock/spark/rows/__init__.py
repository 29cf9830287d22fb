"""Functions over rows: topics as rows and back, dead letters, expiry, duplicates, routes, quality."""

from penstock.spark.rows.expiry import expire_after
from penstock.spark.rows.kept import Rows
from penstock.spark.rows.problems import RowsError
from penstock.spark.rows.quality import QualityCounts, quality, quality_counts
from penstock.spark.rows.reading import parse, read
from penstock.spark.rows.repeats import deduplicate
from penstock.spark.rows.routing import route
from penstock.spark.rows.rules import check, fresh, in_range, matches, not_null, unique
from penstock.spark.rows.writing import write, write_dead_letters

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
