"""The name that a mistyped one was probably meant to be; none where no name is near."""

from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache
from typing import Final

CUTOFF: Final = 0.67
"""How alike two names are, from 0 to 1. Below that, names share little more than a word such as `max` or `ms`."""
SHORT_CUTOFF: Final = 0.6
SHORT: Final = 4
"""One wrong letter is much of a name of so many."""
LEAST_BEGINNING: Final = 3
COMPARED: Final = 3
"""Of the names that share the most pairs of letters: to compare all letter by letter would hold up a broker."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like this one, or else the shortest that begins with it.

    >>> nearest("retention.msx", ["retention.ms", "segment.ms"])
    'retention.ms'
    >>> nearest("max.in.flight", ["max.in.flight.requests.per.connection", "max.block.ms"])
    'max.in.flight.requests.per.connection'
    >>> nearest("bananas", ["retention.ms", "segment.ms"])
    """
    names = list(known)
    if len(name) > 2 * max(map(len, names), default=0):
        return None
    pairs = _pairs.__wrapped__(name)
    likely = sorted(names, key=lambda other: -_likeness(pairs, other))[:COMPARED]
    close = get_close_matches(name, likely, n=1, cutoff=SHORT_CUTOFF if len(name) <= SHORT else CUTOFF)
    if close:
        return close[0]
    if len(name) < LEAST_BEGINNING:
        return None
    return min((other for other in names if other.startswith(name)), key=len, default=None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a refusal: `; did you mean retention.ms?`, or nothing where no name is near."""
    near = nearest(name, known)
    return "" if near is None else f"; did you mean {near}?"


def _likeness(pairs: frozenset[str], other: str) -> float:
    theirs = _pairs(other)
    return len(pairs & theirs) / (len(pairs) + len(theirs))


@lru_cache(maxsize=2_048)
def _pairs(name: str) -> frozenset[str]:
    """Neighbouring letters, and the first and the last."""
    padded = f" {name} "
    return frozenset(padded[at : at + 2] for at in range(len(padded) - 1))
