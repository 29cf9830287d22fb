"""The first scenario: one node, producers that retry, crashes of every kind, and the whole log read back after each."""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

from levada.sim.actors.idempotent_producer import IdempotentProducer
from levada.sim.checkers import CheckFailed, PartitionHistory
from levada.sim.checkers.partition_log import read_log
from levada.sim.frame.faults import BROKER
from levada.sim.frame.rounds import RoundFault, Rounds
from levada.sim.frame.run import NEVER
from levada.sim.frame.scenario import PORT
from levada.sim.requests.connections import Connector
from levada.sim.requests.topics import create_topic
from levada.sim.world import Simulation
from levada.world.world import World

TOPIC = "simulated"
PARTITIONS = 2
PRODUCERS = 3
SIZES = (0, 10, 3_000)
CRASH_WITHIN = 60
"""Disk operations."""


class SingleNode(Rounds):
    purpose = "single node"
    limit_ms = 10 * 60_000
    rounds = 4
    faults = (
        RoundFault.NONE,
        RoundFault.FULL_DISK,
        RoundFault.WRITE_ERRORS,
        RoundFault.RESETS,
        RoundFault.PARTITION,
    )
    spare_bytes = 20_000
    append_error_rate = 0.1
    pauses = (2, 10)

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self.histories = [PartitionHistory() for _ in range(PARTITIONS)]
        self._producer_ids: list[int] = []
        self.flush_messages = 1 if self.chance.random() < 0.3 else NEVER

    @property
    def settings(self) -> dict[str, str]:
        return {"log.segment.bytes": "1048576", "log.index.interval.bytes": "200"}

    def counts(self) -> dict[str, int]:
        return {"records": sum(len(history.acknowledged) for history in self.histories)}

    async def prepare(self) -> None:
        await create_topic(self.connector, TOPIC, PARTITIONS)

    def workers(self, world: World) -> Iterator[Coroutine[Any, Any, None]]:
        for number in range(PRODUCERS):
            yield self._produce(world, number)

    async def _produce(self, world: World, number: int) -> None:
        chance = self.simulation.chance("producer", str(number))
        history = self.histories[number % PARTITIONS]
        connector = Connector(world, BROKER, PORT)
        producer = IdempotentProducer(connector, world.clock.now_ms, TOPIC, number % PARTITIONS)
        sent = 0
        while await self.turns.wait():
            sizes = [chance.choice(SIZES) for _ in range(chance.randint(1, 5))]
            values = [f"{number}-{sent + index}-".encode() + bytes(size) for index, size in enumerate(sizes)]
            sent += len(values)
            await self.turns.take(producer.send(values, history))
            await asyncio.sleep(chance.random() * 0.02)
        self._producer_ids += producer.producer_ids
        connector.close()

    async def crash(self) -> None:
        """Now or between two of its writes, with or without the power."""
        power_loss = self.draw_power_loss()
        if self.chance.random() < 0.5:
            operations = self.chance.randrange(CRASH_WITHIN)
            self.simulation.crash_at(BROKER, disk_operations=operations, power_loss=power_loss)
            await self.wait_for_restart()
        else:
            self.simulation.crash(BROKER, power_loss=power_loss)
            await self.restart_broker()

    def lose_power(self) -> None:
        for history in self.histories:
            history.lose_power()

    async def check(self) -> None:
        """Read everything back."""
        for partition, history in enumerate(self.histories):
            history.check(await read_log(self.connector, TOPIC, partition))

    def check_end(self) -> None:
        if len(set(self._producer_ids)) != len(self._producer_ids):
            raise CheckFailed(f"a producer id was given twice: {self._producer_ids}")
