"""Lengths of time as people write them: `"10 minutes"`, seconds, or a timedelta."""

from datetime import timedelta
from typing import TypeAlias

from levada.spark.options import length_ms
from levada.spark.rows.problems import RowsError

Duration: TypeAlias = str | int | float | timedelta
"""Text such as `"10 minutes"` or `"90s"`, a number of seconds, or a timedelta."""

SPOKEN = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1_000), ("millisecond", 1))


def milliseconds(given: Duration, what: str) -> int:
    """More than none of them; raises RowsError with `what` in it for anything else."""
    given_ms = _given_ms(given)
    if given_ms is None or given_ms <= 0:
        raise RowsError(f"{what} must be a length of time such as '10 minutes', '90s' or 90, not {given!r}")
    return given_ms


def spoken(given_ms: int) -> str:
    """`10 minutes`, in the largest unit that fits without a rest."""
    name, unit_ms = next((name, unit_ms) for name, unit_ms in SPOKEN if given_ms % unit_ms == 0)
    count = given_ms // unit_ms
    return f"{count} {name}" + ("" if count == 1 else "s")


def _given_ms(given: Duration) -> int | None:
    if isinstance(given, bool):
        return None
    if isinstance(given, timedelta):
        return round(given.total_seconds() * 1_000)
    if isinstance(given, int | float):
        return round(given * 1_000)
    return length_ms(given)
