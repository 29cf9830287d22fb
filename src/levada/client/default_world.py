"""The World of a client that is given none: the real one, loaded only then, or that of the simulated process."""

from contextvars import ContextVar
from importlib import import_module

from levada.world.world import ClientWorld

SIMULATED: ContextVar[ClientWorld | None] = ContextVar("levada_world", default=None)
"""Set by the simulator around code that is written for the real world."""


def default_world() -> ClientWorld:
    world: ClientWorld = SIMULATED.get() or import_module("levada.world.real").real_client_world()
    return world
