"""A node that cannot start says why, in the words of its disk."""

import pytest

from levada.model.config import ConfigError
from levada.node import Node, node_settings
from levada.sim import Simulation
from levada.sim.world import DATA_DIRECTORY
from levada.world.world import World

BROKER = "broker"
SETTINGS = {"listeners": f"PLAINTEXT://{BROKER}:9092", "log.dirs": DATA_DIRECTORY, "node.id": "1"}
ENOUGH_BYTES = 1_000


async def serve(world: World) -> None:
    await Node(world, node_settings(SETTINGS)).start()


def start_with_room(simulation: Simulation, free_bytes: int, *, is_first: bool) -> bool:
    """Whether a node comes up with so many bytes left on its disk, in an empty directory or after a crash."""

    async def main() -> bool:
        if not is_first:
            await simulation.start(BROKER, serve)
            simulation.crash(BROKER, power_loss=False)
        file_system = simulation.machine(BROKER).file_system
        file_system.capacity = file_system.used + free_bytes
        try:
            await simulation.start(BROKER, serve)
        except (OSError, ConfigError):
            return False
        return True

    return simulation.run(main())


@pytest.mark.parametrize("is_first", [True, False])
def test_a_full_disk_at_any_moment_of_a_start_is_an_error_of_the_disk(is_first: bool) -> None:
    outcomes = []
    for free_bytes in range(0, ENOUGH_BYTES, 20):
        with Simulation(1) as simulation:
            outcomes.append(start_with_room(simulation, free_bytes, is_first=is_first))
    assert not outcomes[0]
    assert outcomes[-1]
