"""Processes of a scenario that do the same, each on a host of its own."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from levada.sim.actors.actor import Actor
from levada.world.world import World

A = TypeVar("A", bound=Actor)

Make = Callable[[str, World, random.Random], A]
"""Makes an actor of its name, its doors and its generator."""


def host_of(name: str) -> str:
    """Where the actor of this name lives."""
    return name.partition("#")[0]


@dataclass(slots=True)
class Role(Generic[A]):
    name: str
    hosts: int
    make: Make[A]
    first: int = 1
    """How many are there in the beginning."""
    actors: dict[str, A] = field(default_factory=dict)
    """By host the last one there, dead or alive."""
    running: dict[str, "asyncio.Future[None]"] = field(default_factory=dict)

    @property
    def living(self) -> list[str]:
        return [host for host, actor in self.actors.items() if not actor.is_over]

    @property
    def free(self) -> list[str]:
        """Hosts on which none lives."""
        return [host for host in (f"{self.name}-{number}" for number in range(self.hosts)) if host not in self.living]

    def stop(self) -> None:
        """Tell all that live to come to an end."""
        for host in self.living:
            self.actors[host].must_stop = True
