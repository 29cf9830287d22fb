"""Lengths of time as people write them: `"10 minutes"`, seconds, or a timedelta."""

import re
from datetime import timedelta
from typing import TypeAlias

from levada.spark.rows.problems import RowsError

Duration: TypeAlias = str | int | float | timedelta
"""Text such as `"10 minutes"` or `"90s"`, a number of seconds, or a timedelta."""

UNITS_MS = {
    "ms": 1,
    "millisecond": 1,
    "s": 1_000,
    "sec": 1_000,
    "second": 1_000,
    "m": 60_000,
    "min": 60_000,
    "minute": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
    "week": 604_800_000,
}
WRITTEN = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
SPOKEN = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1_000), ("millisecond", 1))


def milliseconds(given: Duration, what: str) -> int:
    """More than none of them; raises RowsError with `what` in it for anything else."""
    length_ms = _length_ms(given)
    if length_ms is None or length_ms <= 0:
        raise RowsError(f"{what} must be a length of time such as '10 minutes', '90s' or 90, not {given!r}")
    return length_ms


def spoken(length_ms: int) -> str:
    """`10 minutes`, in the largest unit that fits without a rest."""
    name, unit_ms = next((name, unit_ms) for name, unit_ms in SPOKEN if length_ms % unit_ms == 0)
    count = length_ms // unit_ms
    return f"{count} {name}" + ("" if count == 1 else "s")


def _length_ms(given: Duration) -> int | None:
    if isinstance(given, bool):
        return None
    if isinstance(given, timedelta):
        return round(given.total_seconds() * 1_000)
    if isinstance(given, int | float):
        return round(given * 1_000)
    found = WRITTEN.fullmatch(given.strip().lower())
    if found is None:
        return None
    unit_ms = UNITS_MS.get(found[2]) or UNITS_MS.get(found[2].removesuffix("s"))
    return None if unit_ms is None else round(float(found[1]) * unit_ms)
