"""Where a client runs when nobody says so: the real world, loaded only then, for the simulator has its own."""

from importlib import import_module

from penstock.world.world import ClientWorld


def real_surroundings() -> ClientWorld:
    world: ClientWorld = import_module("penstock.world.real").real_client_world()
    return world
