"""What a configuration key may hold: each range says what is wrong with a value, and prints as Kafka prints it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol


class Fault(NamedTuple):
    value: object
    """What is wrong: the value, or the one member of a list."""
    subject: str
    """What Kafka calls it; empty where Kafka names the key."""
    reason: str
    """`must be ...`"""


class ValueRange(Protocol):
    def fault(self, value: Any) -> Fault | None:
        """What is wrong with a parsed value, or None."""
        ...

    def __str__(self) -> str: ...


@dataclass(frozen=True, slots=True)
class AtLeast:
    low: float

    def fault(self, value: Any) -> Fault | None:
        return None if value >= self.low else Fault(value, "Value", f"must be at least {self.low}")

    def __str__(self) -> str:
        return f"[{self.low},...]"


@dataclass(frozen=True, slots=True)
class Between:
    low: float
    high: float

    def fault(self, value: Any) -> Fault | None:
        if value > self.high:
            return Fault(value, "Value", f"must be no more than {self.high}")
        return AtLeast(self.low).fault(value)

    def __str__(self) -> str:
        return f"[{self.low},...,{self.high}]"


@dataclass(frozen=True, slots=True)
class BetweenOr:
    """A range, or one value outside it that stands for something else."""

    low: int
    high: int
    other: int

    def fault(self, value: Any) -> Fault | None:
        if value == self.other or self.low <= value <= self.high:
            return None
        return Fault(value, "Value", f"must be between {self.low} and {self.high} or equal to {self.other}")

    def __str__(self) -> str:
        return f"[{self.low},...,{self.high}] or {self.other}"


class OneOf:
    """A choice of words; of a list, each member is one of them."""

    def __init__(self, *choices: str, ignore_case: bool = False) -> None:
        self._choices = choices
        self._ignore_case = ignore_case

    def fault(self, value: Any) -> Fault | None:
        members: Sequence[str] = (value,) if isinstance(value, str) else value
        for member in members:
            if (member.upper() if self._ignore_case else member) not in self._choices:
                how = " (case insensitive)" if self._ignore_case else ""
                return Fault(member, "String", f"must be one of{how}: {', '.join(self._choices)}")
        return None

    def __str__(self) -> str:
        return ("(case insensitive) " if self._ignore_case else "") + f"[{', '.join(self._choices)}]"


class NonEmpty:
    """A text that says something."""

    def fault(self, value: Any) -> Fault | None:
        return None if value else Fault(value, "String", "must be non-empty")

    def __str__(self) -> str:
        return "non-empty string"


@dataclass(frozen=True, slots=True)
class Anything:
    """Kafka prints a range here that excludes no text: its default is what the words seem to forbid."""

    text: str

    def fault(self, value: Any) -> Fault | None:
        return None

    def __str__(self) -> str:
        return self.text


class ThrottledReplicas:
    """Which replicas of a topic a throttle is for."""

    _PAIR = re.compile(r"[0-9]+:[0-9]+")
    _FORM = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."

    def fault(self, value: Any) -> Fault | None:
        if value == ("*",) or all(self._PAIR.fullmatch(member) for member in value):
            return None
        reason = f"must be the literal '*' or a list of replicas in the following format: {self._FORM}"
        return Fault(f"[{', '.join(value)}]", "", reason)

    def __str__(self) -> str:
        return self._FORM


class OffsetReset:
    """Where a share group begins: at an end of the log, or so long ago."""

    # Java's durations may be written small, and with a comma.
    _DURATION = re.compile(
        r"by_duration:(?i:P(?=.)(?:[0-9]+D)?(?:T(?=.)(?:[0-9]+H)?(?:[0-9]+M)?(?:[0-9]+(?:[.,][0-9]{0,9})?S)?)?)"
    )
    _FORM = "must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."

    def fault(self, value: Any) -> Fault | None:
        if value in ("latest", "earliest") or self._DURATION.fullmatch(value):
            return None
        return Fault(value, f"Invalid value `{value}` for configuration share.auto.offset.reset. The value", self._FORM)

    def __str__(self) -> str:
        return "[latest, earliest, by_duration:PnDTnHnMn.nS]"
