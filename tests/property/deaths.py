"""Steps of a model at any of whose disk operations the simulated process may die."""

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from levada.sim.world.incarnation import HostDied


class Mortal(Protocol):
    """A model of what a process keeps on disk."""

    def recover(self) -> None:
        """Begin again with what is left."""


P = ParamSpec("P")
M = TypeVar("M", bound=Mortal)


def until_death(step: Callable[Concatenate[M, P], None]) -> Callable[Concatenate[M, P], None]:
    """The process may die at any disk operation of a step; then the next one begins with what is left."""

    @functools.wraps(step)
    def wrapped(machine: M, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            step(machine, *args, **kwargs)
        except HostDied:
            machine.recover()

    return wrapped
