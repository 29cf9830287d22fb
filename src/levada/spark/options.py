"""The options of the data source, as Spark hands them over: names without case, values as text."""

import re
from collections.abc import Collection, Mapping

from levada.model.near_names import nearest

PREFIX = "kafka."
"""Options that begin so go to our clients, by Kafka's names without it."""

BOOTSTRAP = "kafka.bootstrap.servers"
API_TIMEOUT = "default.api.timeout.ms"
PATIENCE_MS = "60000"
"""Kafka's default, but chosen: each task makes clients of its own, and a broker that restarts must not fail them."""
TRUTH = {"true": True, "false": False}

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
LENGTH = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")


class OptionError(ValueError):
    """An option that cannot be used; the text is one line that says what to do."""


def client_settings(options: Mapping[str, str], refused: Mapping[str, str]) -> dict[str, str]:
    """The settings of our clients among them; `refused` says of a name without prefix what to use instead."""
    if not options.get(BOOTSTRAP):
        raise OptionError(f"option {BOOTSTRAP!r} is missing: name a broker, such as localhost:9092")
    settings: dict[str, str] = {}
    for name in options:
        setting = name.lower().removeprefix(PREFIX)
        if setting == name.lower():
            continue
        if setting in refused:
            raise OptionError(f"option {PREFIX + setting!r} is not supported: {refused[setting]}")
        settings[setting] = options[name]
    return settings


def refuse_unknown(options: Mapping[str, str], known: Collection[str]) -> None:
    """Raise for the first that is neither ours nor a client's."""
    by_lower_case = {name.lower(): name for name in known}
    for name in options:
        lower = name.lower()
        if lower.startswith(PREFIX) or lower in by_lower_case:
            continue
        near = nearest(lower, by_lower_case)
        advice = "" if near is None else f"; did you mean {by_lower_case[near]}?"
        raise OptionError(f"unknown option {name!r}{advice}")


def flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    given = options.get(name)
    if given is None:
        return default
    if given.lower() not in TRUTH:
        raise OptionError(f"option {name!r} must be true or false, not {given!r}")
    return TRUTH[given.lower()]


def length_ms(text: str) -> int | None:
    """A length of time with its unit, in milliseconds; None if it is none.

    >>> length_ms("90s"), length_ms("1.5 Minutes"), length_ms("2 weeks"), length_ms("90"), length_ms("1 fortnight")
    (90000, 90000, 1209600000, None, None)
    """
    found = LENGTH.fullmatch(text.strip().lower())
    if found is None:
        return None
    unit_ms = UNITS_MS.get(found[2]) or UNITS_MS.get(found[2].removesuffix("s"))
    return None if unit_ms is None else round(float(found[1]) * unit_ms)


def option_ms(text: str) -> int | None:
    """The same where a number alone counts milliseconds, as in Kafka's settings."""
    bare = text.strip()
    return int(bare) if bare.isdecimal() else length_ms(bare)


def whole_number(options: Mapping[str, str], name: str, *, at_least: int) -> int | None:
    given = options.get(name)
    if given is None:
        return None
    try:
        number = int(given)
    except ValueError:
        raise OptionError(f"option {name!r} must be a whole number, not {given!r}") from None
    if number < at_least:
        raise OptionError(f"option {name!r} must be at least {at_least}, not {number}")
    return number
