"""The second scenario: topics come, change and go while the broker crashes, and all of it is there or none."""

import asyncio
from dataclasses import dataclass

from penstock.net.channel import Channel, ChannelClosed
from penstock.node import Node, node_settings
from penstock.sim.storm import Known, Storm, described
from penstock.sim.world import DATA_DIRECTORY, Simulation
from penstock.world.world import World

BROKER, CLIENT = "broker", "client"
PORT = 9092
CLIENTS, TOPICS_EACH = 2, 3
ROUNDS = 4
RETRY_SECONDS = 0.05
ON_THE_WIRE_SECONDS = 1.0
LIMIT_MS = 10 * 60_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did; equal for equal seeds."""

    digest: str
    changes: int
    crashes: int

    def __str__(self) -> str:
        return f"{self.changes} changes, {self.crashes} crashes, trace {self.digest}"


def run_metadata_storm(seed: int, *, recording: bool = False) -> tuple[Outcome, list[str]]:
    """Run the scenario; CheckFailed or a failure of the run itself carries the seed."""
    with Simulation(seed, recording=recording) as simulation:
        scenario = _Scenario(simulation)
        simulation.run(scenario.main(), limit_ms=LIMIT_MS)
        changes = sum(known.acknowledged for known in scenario.clients)
        return Outcome(simulation.trace.digest(), changes, ROUNDS), simulation.trace.lines or []


class _Scenario:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._chance = simulation.chance("metadata storm")
        self.clients = [
            Known({f"storm-{number}-{one}": None for one in range(TOPICS_EACH)}) for number in range(CLIENTS)
        ]

    async def main(self) -> None:
        self._simulation.start(BROKER, _serve)
        client = self._simulation.world(CLIENT)
        for number in range(ROUNDS):
            storms = [
                self._simulation.spawn(CLIENT, self._storm(client, known, f"{number}-{one}"))
                for one, known in enumerate(self.clients)
            ]
            await self._disturb()
            await self._crash()
            for storm in storms:
                await storm
            self._simulation.start(BROKER, _serve)
            await self._simulation.spawn(CLIENT, self._check(client))

    async def _storm(self, world: World, known: Known, purpose: str) -> None:
        channel = await _connect(world)
        await Storm(self._simulation.chance("storm", purpose), known).run(channel)

    async def _disturb(self) -> None:
        """Let the storm blow for a while, on a disk that may fail."""
        machine = self._simulation.machine(BROKER)
        if self._chance.random() < 0.3:
            machine.file_system.faults.fail_randomly("append", 0.02)
        await asyncio.sleep(self._chance.random() * 2)
        machine.file_system.faults.fail_randomly("append", 0.0)

    async def _crash(self) -> None:
        """Between any two disk operations or at any time, with or without the power."""
        power_loss = self._chance.random() < 0.5
        machine = self._simulation.machine(BROKER)
        if self._chance.random() < 0.7:
            operations = self._chance.randrange(300)
            self._simulation.crash_at(BROKER, disk_operations=operations, power_loss=power_loss)
            while machine.processes:
                await self._tick()
        else:
            self._simulation.crash(BROKER, power_loss=power_loss)
        # Replies that were on the wire still arrive, and belong to the time before.
        await asyncio.sleep(ON_THE_WIRE_SECONDS)

    async def _tick(self) -> None:
        await asyncio.sleep(0.01)

    async def _check(self, world: World) -> None:
        channel = await _connect(world)
        shown = await described(channel)
        channel.close()
        for known in self.clients:
            known.settle(shown)


async def _connect(world: World) -> Channel:
    while True:
        try:
            return await Channel.connect(world.net, BROKER, PORT)
        except (OSError, ChannelClosed):
            await asyncio.sleep(RETRY_SECONDS)


async def _serve(world: World) -> None:
    settings = node_settings(
        {
            "listeners": f"PLAINTEXT://{BROKER}:{PORT}",
            "log.dirs": DATA_DIRECTORY,
            "node.id": "1",
            "log.index.size.max.bytes": "4096",
            "log.segment.delete.delay.ms": "500",
            "metadata.log.max.record.bytes.between.snapshots": "2000",
            "penstock.poison.buffers": "true",
        }
    )
    node = Node(world, settings)
    await node.start()
    await asyncio.get_running_loop().create_future()
