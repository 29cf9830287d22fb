"""Medians with their spread, and the limits that a run is held to."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle of a sample, and its quarters."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.4g} [{self.low:.4g}-{self.high:.4g}]"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def spread(sample: Sequence[float]) -> Spread:
    if len(sample) < 2:
        return Spread(sample[0], sample[0], sample[0])
    low, median, high = statistics.quantiles(sample, n=4, method="inclusive")
    return Spread(median, low, high)


@dataclass(frozen=True, slots=True)
class Check:
    """A figure and the most, or the least, that it may be."""

    name: str
    value: float
    allowed: float
    is_floor: bool = False

    @property
    def is_met(self) -> bool:
        return self.value >= self.allowed if self.is_floor else self.value <= self.allowed

    def __str__(self) -> str:
        bound = "at least" if self.is_floor else "at most"
        verdict = "ok" if self.is_met else "BEYOND"
        return f"{self.name:58}{self.value:10.2f}   {bound} {self.allowed:<7g} {verdict}"

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "is_met": self.is_met}
