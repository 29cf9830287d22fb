"""One node under a storm of changes to its topics, crashes of every kind, and everything compared after each."""

import asyncio
from dataclasses import dataclass

from levada.node import Node, node_settings
from levada.sim.checkers import CheckFailed
from levada.sim.clients import Connector
from levada.sim.storm import Caller, Storm, check_storms, served_topics
from levada.sim.topic_ledger import Served
from levada.sim.world import DATA_DIRECTORY, Simulation
from levada.storage.log_directory import DELETED
from levada.world.world import World

BROKER, CLIENT = "broker", "client"
PORT = 9092
CLIENTS = 3
NAMES_EACH = 2
ROUNDS = 5
ON_THE_WIRE_SECONDS = 1.0
NEVER = 2**63 - 1
LIMIT_MS = 20 * 60_000


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
        changes = sum(storm.acknowledged for storm in scenario.storms)
        return Outcome(simulation.trace.digest(), changes, scenario.crashes), simulation.trace.lines or []


class _Scenario:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._chance = simulation.chance("metadata storm")
        self.storms: list[Storm] = []
        self.crashes = 0
        self._storming: list[asyncio.Future[None]] = []
        self._may_act = asyncio.Event()
        self._flush_messages = self._chance.choice((1, NEVER))
        self._snapshot_bytes = self._chance.choice((1, 2_000, 1 << 20))
        self._busy = 0
        self._is_over = False

    async def main(self) -> None:
        self._start_broker()
        client = self._simulation.world(CLIENT)
        connector = Connector(client, BROKER, PORT)
        await self._simulation.spawn(CLIENT, served_topics(connector))
        for number in range(CLIENTS):
            names = [f"storm.{number}-{index}" for index in range(NAMES_EACH)]
            chance = self._simulation.chance("storm", str(number))
            self.storms.append(Storm(Caller(client, BROKER, PORT), chance, names))
            self._storming.append(self._simulation.spawn(CLIENT, self._storm(self.storms[-1])))
        for _ in range(ROUNDS):
            self._may_act.set()
            await self._disturb()
            await self._crash()
            self._start_broker()
            await self._simulation.spawn(CLIENT, self._check(connector))
        self._is_over = True
        self._may_act.set()
        for each in self._storming:
            await each

    def _start_broker(self) -> None:
        self._simulation.start(BROKER, lambda world: _serve(world, self._flush_messages, self._snapshot_bytes))

    async def _storm(self, storm: Storm) -> None:
        while True:
            await self._may_act.wait()
            if self._is_over:
                return
            self._busy += 1
            await storm.act()
            self._busy -= 1

    async def _disturb(self) -> None:
        """Let the storm blow for a while, with the disk in its way."""
        file_system = self._simulation.machine(BROKER).file_system
        disturbance = self._chance.choice(("none", "none", "full disk", "write errors", "resets"))
        if disturbance == "full disk":
            file_system.capacity = file_system.used + self._chance.randrange(5_000)
        elif disturbance == "write errors":
            file_system.faults.fail_randomly("append", 0.05)
        for _ in range(self._chance.randint(1, 8)):
            await asyncio.sleep(self._chance.random() * 0.2)
            if disturbance == "resets":
                self._simulation.network.reset(BROKER, CLIENT)
        file_system.capacity = None
        file_system.faults.fail_randomly("append", 0.0)

    async def _crash(self) -> None:
        """End the broker, now or between two of its disk operations, with or without the power; sometimes twice."""
        for _ in range(self._chance.choice((1, 1, 2))):
            self.crashes += 1
            power_loss = self._chance.random() < 0.5
            operations = self._chance.choice((0, self._chance.randrange(10), self._chance.randrange(300)))
            self._simulation.crash_at(BROKER, disk_operations=operations, power_loss=power_loss)
            if not self._simulation.machine(BROKER).processes:
                self._start_broker()
            while self._simulation.machine(BROKER).processes:
                await self._tick()
            # Replies that were on the wire still arrive, and belong to the time before.
            await asyncio.sleep(ON_THE_WIRE_SECONDS)
            if power_loss and self._flush_messages == NEVER:
                for ledger in [ledger for storm in self.storms for ledger in storm.ledgers]:
                    ledger.lose_power()

    async def _tick(self) -> None:
        """Let a little time pass; a client whose check failed ends the run here."""
        for failed in [each for each in self._storming if each.done()]:
            failed.result()
        await asyncio.sleep(0.01)

    async def _check(self, connector: Connector) -> None:
        self._may_act.clear()
        while self._busy:
            await self._tick()
        served = await check_storms(connector, self.storms)
        self._check_directories(served)

    def _check_directories(self, served: dict[str, Served]) -> None:
        """What lies on the disk is what is served, and what is on its way out."""
        directory = self._simulation.machine(BROKER).file_system.find_directory(DATA_DIRECTORY)
        names = [name for name in directory.entries if name.rpartition("-")[2].isdigit()]
        partitions = [f"{name}-{index}" for name, topic in served.items() for index in range(topic.partitions)]
        if sorted(names) != sorted(partitions):
            raise CheckFailed(f"on the disk are {sorted(names)}, served are {sorted(partitions)}")
        others = {name for name in directory.entries if "-" in name and not name.endswith((DELETED, "-checkpoint"))}
        if others - set(names):
            raise CheckFailed(f"nobody knows {sorted(others - set(names))}")


async def _serve(world: World, flush_messages: int, snapshot_bytes: int) -> None:
    settings = node_settings(
        {
            "listeners": f"PLAINTEXT://{BROKER}:{PORT}",
            "log.dirs": DATA_DIRECTORY,
            "log.retention.ms": "-1",
            "node.id": "1",
            "auto.create.topics.enable": "false",
            "log.flush.interval.messages": str(flush_messages),
            "log.index.size.max.bytes": "4096",
            "log.segment.delete.delay.ms": "500",
            "metadata.log.max.record.bytes.between.snapshots": str(snapshot_bytes),
            "levada.poison.buffers": "true",
        }
    )
    node = Node(world, settings)
    await node.start()
    await asyncio.get_running_loop().create_future()
