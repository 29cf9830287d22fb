"""A run of a scenario: its seed's generator, what it comes to, and an outcome that is equal for equal seeds."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from levada.sim.world import Simulation

NEVER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did; equal for equal seeds."""

    digest: str
    counts: Mapping[str, int]
    """How often something happened, by its name in the plural."""

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {what}" for what, count in self.counts.items())
        return f"{counts}, trace {self.digest}"


class Run(ABC):
    """A subclass says what happens in it and what must hold."""

    purpose: ClassVar[str]
    """Names its generator, and so must not change: its seeds would do other things."""
    limit_ms: ClassVar[int]

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.chance = simulation.chance(self.purpose)
        self.crashes = 0

    @property
    def now_s(self) -> float:
        return self.simulation.loop.time()

    @abstractmethod
    async def main(self) -> None:
        """All that happens, with the checks."""

    @abstractmethod
    def counts(self) -> dict[str, int]:
        """What it did, for its outcome."""


def run_scenario(kind: type[Run], seed: int, *, recording: bool = False) -> tuple[Outcome, list[str]]:
    """What the run did, and its trace when recording; CheckFailed or a failure of the run itself carries the seed."""
    with Simulation(seed, recording=recording) as simulation:
        scenario = kind(simulation)
        simulation.run(scenario.main(), limit_ms=kind.limit_ms)
        counts = {**scenario.counts(), "crashes": scenario.crashes}
        return Outcome(simulation.trace.digest(), counts), simulation.trace.lines or []
