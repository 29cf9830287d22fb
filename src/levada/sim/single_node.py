"""The first scenario: one node, producers that retry, crashes of every kind, and the whole log read back after each."""

import asyncio
from dataclasses import dataclass

from levada.node import Node, node_settings
from levada.sim.checkers import CheckFailed, PartitionHistory
from levada.sim.clients import Connector, IdempotentProducer, create_topic, read_log
from levada.sim.world import DATA_DIRECTORY, Simulation
from levada.world.world import World

BROKER, CLIENT = "broker", "client"
PORT = 9092
TOPIC = "simulated"
PARTITIONS = 2
PRODUCERS = 3
ROUNDS = 4
ON_THE_WIRE_SECONDS = 1.0
NEVER = 2**63 - 1
LIMIT_MS = 10 * 60_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did; equal for equal seeds."""

    digest: str
    records: int
    crashes: int

    def __str__(self) -> str:
        return f"{self.records} records, {self.crashes} crashes, trace {self.digest}"


def run_single_node(seed: int, *, recording: bool = False) -> tuple[Outcome, list[str]]:
    """Run the scenario; CheckFailed or a failure of the run itself carries the seed."""
    with Simulation(seed, recording=recording) as simulation:
        scenario = _Scenario(simulation)
        simulation.run(scenario.main(), limit_ms=LIMIT_MS)
        records = sum(len(history.acknowledged) for history in scenario.histories)
        outcome = Outcome(simulation.trace.digest(), records, scenario.crashes)
        return outcome, simulation.trace.lines or []


class _Scenario:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._chance = simulation.chance("single node")
        self.histories = [PartitionHistory() for _ in range(PARTITIONS)]
        self.crashes = 0
        self._producer_ids: list[int] = []
        self._producing: list[asyncio.Future[None]] = []
        self._may_send = asyncio.Event()
        # In some runs every append is flushed before it is acknowledged, and then not even a power cut may lose it.
        self._flush_messages = 1 if self._chance.random() < 0.3 else NEVER
        self._busy = 0
        self._is_over = False

    async def main(self) -> None:
        self._start_broker()
        client = self._simulation.world(CLIENT)
        connector = Connector(client, BROKER, PORT)
        await self._simulation.spawn(CLIENT, create_topic(connector, TOPIC, PARTITIONS))
        for number in range(PRODUCERS):
            self._producing.append(self._simulation.spawn(CLIENT, self._produce(client, number)))
        for _ in range(ROUNDS):
            self._may_send.set()
            await self._disturb()
            await self._crash()
            self._start_broker()
            await self._simulation.spawn(CLIENT, self._check(connector))
        self._is_over = True
        self._may_send.set()
        for each in self._producing:
            await each
        if len(set(self._producer_ids)) != len(self._producer_ids):
            raise CheckFailed(f"a producer id was given twice: {self._producer_ids}")

    def _start_broker(self) -> None:
        self._simulation.start(BROKER, lambda world: _serve(world, self._flush_messages))

    async def _produce(self, world: World, number: int) -> None:
        chance = self._simulation.chance("producer", str(number))
        history = self.histories[number % PARTITIONS]
        connector = Connector(world, BROKER, PORT)
        producer = IdempotentProducer(connector, world.clock.now_ms, TOPIC, number % PARTITIONS)
        sent = 0
        while True:
            await self._may_send.wait()
            if self._is_over:
                break
            sizes = [chance.choice((0, 10, 3_000)) for _ in range(chance.randint(1, 5))]
            values = [f"{number}-{sent + index}-".encode() + bytes(size) for index, size in enumerate(sizes)]
            sent += len(values)
            self._busy += 1
            await producer.send(values, history)
            self._busy -= 1
            await asyncio.sleep(chance.random() * 0.02)
        self._producer_ids += producer.producer_ids
        connector.close()

    async def _disturb(self) -> None:
        """Let the workload run for a while, with the disk or the network in its way."""
        machine = self._simulation.machine(BROKER)
        disturbance = self._chance.choice(("none", "full disk", "write errors", "resets", "partition"))
        if disturbance == "full disk":
            machine.file_system.capacity = machine.file_system.used + self._chance.randrange(20_000)
        elif disturbance == "write errors":
            machine.file_system.faults.fail_randomly("append", 0.1)
        elif disturbance == "partition":
            self._simulation.network.partition(BROKER, CLIENT)
        for _ in range(self._chance.randint(2, 10)):
            await asyncio.sleep(self._chance.random() * 0.2)
            if disturbance == "resets":
                self._simulation.network.reset(BROKER, CLIENT)
        machine.file_system.capacity = None
        machine.file_system.faults.fail_randomly("append", 0.0)
        self._simulation.network.heal_all()

    async def _crash(self) -> None:
        """End the broker, now or between two of its writes, with or without the power."""
        self.crashes += 1
        power_loss = self._chance.random() < 0.5
        if self._chance.random() < 0.5:
            operations = self._chance.randrange(60)
            self._simulation.crash_at(BROKER, disk_operations=operations, power_loss=power_loss)
            while self._simulation.machine(BROKER).processes:
                await self._tick()
        else:
            self._simulation.crash(BROKER, power_loss=power_loss)
        # Replies that were on the wire still arrive, and belong to the time before.
        await asyncio.sleep(ON_THE_WIRE_SECONDS)
        if power_loss and self._flush_messages == NEVER:
            for history in self.histories:
                history.lose_power()

    async def _tick(self) -> None:
        """Let a little time pass; a producer whose check failed ends the run here."""
        for failed in [each for each in self._producing if each.done()]:
            failed.result()
        await asyncio.sleep(0.01)

    async def _check(self, connector: Connector) -> None:
        """Stop the producers between two batches and read everything back."""
        self._may_send.clear()
        while self._busy:
            await self._tick()
        for partition, history in enumerate(self.histories):
            history.check(await read_log(connector, TOPIC, partition))


async def _serve(world: World, flush_messages: int) -> None:
    settings = node_settings(
        {
            "listeners": f"PLAINTEXT://{BROKER}:{PORT}",
            "log.dirs": DATA_DIRECTORY,
            "log.retention.ms": "-1",
            "node.id": "1",
            "log.segment.bytes": "1048576",
            "log.index.size.max.bytes": "4096",
            "log.index.interval.bytes": "200",
            "log.flush.interval.messages": str(flush_messages),
            "levada.poison.buffers": "true",
        }
    )
    node = Node(world, settings)
    await node.start()
    await asyncio.get_running_loop().create_future()
