"""Where a consumer begins that has no position: `auto.offset.reset`, and the durations in it as Java reads them."""

import re
from typing import Any, NamedTuple

from levada.model.config_ranges import Fault

_MILLIS = {"D": 86_400_000, "H": 3_600_000, "M": 60_000}
_SECONDS = re.compile(r"([+-]?)([0-9]+)(?:[.,]([0-9]{0,9}))?")
# Java's durations may be written small, with a comma, and with a sign before the whole and before each part.
_DURATION = re.compile(
    r"(?P<sign>[+-]?)P(?=.)(?:(?P<D>[+-]?[0-9]+)D)?"
    r"(?:T(?=.)(?:(?P<H>[+-]?[0-9]+)H)?(?:(?P<M>[+-]?[0-9]+)M)?(?:(?P<S>[+-]?[0-9]+(?:[.,][0-9]{0,9})?)S)?)?",
    re.IGNORECASE | re.ASCII,
)
_LONGEST_MS = 2**63 - 1
_PREFIX = "by_duration:"


def parse_duration_ms(text: str) -> int:
    """The whole milliseconds of what Java's `Duration.parse` takes; ValueError for what it does not.

    >>> parse_duration_ms("PT1H"), parse_duration_ms("P1DT0.5S"), parse_duration_ms("-PT1M")
    (3600000, 86400500, -60000)
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"not a duration such as PT1H or P7DT12H: {text!r}")
    nanos = sum(int(found[unit] or 0) * millis for unit, millis in _MILLIS.items()) * 1_000_000
    if found["S"] is not None:
        sign, whole, fraction = _SECONDS.fullmatch(found["S"]).groups("")  # type: ignore[union-attr]
        part = int(whole) * 1_000_000_000 + int(fraction.ljust(9, "0"))
        nanos += -part if sign == "-" else part
    millis = (-nanos if found["sign"] == "-" else nanos) // 1_000_000
    if abs(millis) > _LONGEST_MS:
        raise ValueError(f"a duration that no clock reaches: {text!r}")
    return millis


class OffsetResetStrategy(NamedTuple):
    """`auto.offset.reset` taken apart."""

    where: str
    """`earliest`, `latest`, `none` or `by_duration`."""
    duration_ms: int = 0
    """How long ago, where it is by duration."""


def parse_offset_reset(text: str) -> OffsetResetStrategy:
    """What a value of `auto.offset.reset` says; ValueError for what it cannot be."""
    if text in ("earliest", "latest", "none"):
        return OffsetResetStrategy(text)
    if not text.startswith(_PREFIX):
        raise ValueError(text)
    duration_ms = parse_duration_ms(text.removeprefix(_PREFIX))
    if duration_ms < 0:
        raise ValueError(f"a duration that lies ahead: {text!r}")
    return OffsetResetStrategy("by_duration", duration_ms)


class OffsetReset:
    """The range of `auto.offset.reset`."""

    _FORM = "must be either 'earliest', 'latest', 'none' or of the format 'by_duration:<PnDTnHnMn.nS>'"

    def fault(self, value: Any) -> Fault | None:
        try:
            parse_offset_reset(value)
        except ValueError:
            return Fault(value, "", self._FORM)
        return None

    def __str__(self) -> str:
        return "[latest, earliest, none, by_duration:PnDTnHnMn.nS]"
