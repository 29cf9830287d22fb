"""Points in time as --to-datetime and --by-duration give them, in the forms that Java reads."""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from levada.cli.kit.refusals import Refused

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

DATETIME: Final = re.compile(
    r"(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)\.(\d+)(?:Z|(?P<sign>[+-])(?P<hours>\d\d)(?::(?P<minutes>\d\d))?)?",
    re.ASCII,
)

DURATION: Final = re.compile(
    r"(?P<sign>[+-]?)P(?:(?P<days>[+-]?\d+)D)?"
    r"(?:T(?=[+-]?\d)(?:(?P<hours>[+-]?\d+)H)?(?:(?P<minutes>[+-]?\d+)M)?"
    r"(?:(?P<seconds>[+-]?\d+)(?:[.,](?P<fraction>\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)


def parse_datetime(text: str) -> int:
    """Milliseconds since 1970; a time without a zone is in UTC.

    >>> parse_datetime("2024-02-29T12:00:00.250"), parse_datetime("2024-02-29T13:00:00.250+01:00")
    (1709208000250, 1709208000250)
    """
    found = DATETIME.fullmatch(text)
    try:
        if found is None:
            raise ValueError("it does not have that form")
        year, month, day, hour, minute, second, millisecond = map(int, found.groups()[:7])
        if millisecond > 999:
            raise ValueError("milliseconds must be in 0..999")
        moment = datetime(year, month, day, hour, minute, second, millisecond * 1_000, tzinfo=_zone(found))
        return (moment - EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError) as error:
        raise Refused(
            f"--to-datetime {text!r} is no time: {error}; write YYYY-MM-DDThh:mm:ss.sss, and ±hh:mm behind it"
            " where it is not UTC"
        ) from None


def _zone(found: re.Match[str]) -> timezone:
    if found["sign"] is None:
        return UTC
    offset = timedelta(hours=int(found["hours"]), minutes=int(found["minutes"] or 0))
    return timezone(-offset if found["sign"] == "-" else offset)


def parse_duration(text: str) -> int:
    """Milliseconds, rounded down.

    >>> parse_duration("P1DT1H"), parse_duration("-PT0.5S"), parse_duration("pt-1m")
    (90000000, -500, -60000)
    """
    found = DURATION.fullmatch(text)
    try:
        if found is None or not any(found[unit] for unit in ("days", "hours", "minutes", "seconds")):
            raise ValueError("it does not have that form")
        return _duration(found) // timedelta(milliseconds=1)
    except (ValueError, OverflowError) as error:
        raise Refused(
            f"--by-duration {text!r} is no duration: {error}; write PnDTnHnMnS: P7D is a week, PT1H30M ninety minutes"
        ) from None


def _duration(found: re.Match[str]) -> timedelta:
    units = {unit: int(found[unit] or 0) for unit in ("days", "hours", "minutes", "seconds")}
    microseconds = int((found["fraction"] or "").ljust(6, "0")[:6])
    if (found["seconds"] or "").startswith("-"):
        microseconds = -microseconds
    length = timedelta(microseconds=microseconds, **units)
    return -length if found["sign"] == "-" else length
