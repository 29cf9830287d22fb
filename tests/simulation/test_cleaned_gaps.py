"""Gaps that cleaning has left are no damage, also when the log is not compacted any more and its broker is killed."""

from penstock.sim import Simulation
from tests.simulation.moving_log import Sequence, Town, leave_gaps

LIMIT_MS = 600_000


def test_a_log_that_is_no_longer_compacted_keeps_its_gaps_through_a_kill() -> None:
    with Simulation(1) as simulation:
        town = Town(simulation)

        async def session() -> None:
            await leave_gaps(town, Sequence())
            before = await town.read()
            assert len(before.records) < before.end_offset
            town.crash(power_loss=False)
            town.start()
            assert await town.read() == before
            town.connector.close()

        async def main() -> None:
            town.start()
            await town.as_client(session())

        simulation.run(main(), limit_ms=LIMIT_MS)
