"""Where a client runs when nobody says so: the real world, loaded only then, or the simulated process it is made in."""

from contextvars import ContextVar
from importlib import import_module

from levada.world.world import ClientWorld

SIMULATED: ContextVar[ClientWorld | None] = ContextVar("levada_surroundings", default=None)
"""Set by whoever runs code that is written for the real world in another one."""


def default_world() -> ClientWorld:
    world: ClientWorld = SIMULATED.get() or import_module("levada.world.real").real_client_world()
    return world
