"""One node that dies and is started again."""

import asyncio
from abc import abstractmethod
from collections.abc import Coroutine, Iterator
from typing import Any, ClassVar, Final, TypeVar

from levada.node import Node, node_settings
from levada.sim.frame.faults import BROKER, DiskFault
from levada.sim.frame.run import Run
from levada.sim.requests.connections import Connector
from levada.sim.world import DATA_DIRECTORY, HostCrashed, Simulation
from levada.world.world import World

T = TypeVar("T")

PORT = 9092
ON_THE_WIRE_SECONDS = 1.0
"""Replies that a broker had sent when it died have arrived by then; they belong to the time before."""
LOOK_SECONDS = 0.01
POWER_LOSS_RATE = 0.6

SHORT_GROUP_TIMES: Final = {
    "group.initial.rebalance.delay.ms": "300",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "400",
    "group.consumer.assignment.interval.ms": "200",
}
"""Settings of nodes whose groups lose members and rebalance within the seconds of a run."""


class Scenario(Run):
    """A subclass says what happens in it and what must hold; here is the node to which it happens."""

    admin: ClassVar[str] = "admin"
    """The host that prepares the cluster and asks what it has come to."""
    crash_within: ClassVar[tuple[int, ...]] = (0,)
    """A crash comes after fewer disk operations than one of these; 0 is at the next."""

    world: World
    """The admin's, and how it asks; there from the beginning of `play`."""
    connector: Connector

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self.flush_messages: int | None = None
        """With 1 an append is flushed before it is acknowledged, and no power cut may take it; None is the default."""
        self.disk = DiskFault(simulation)
        self.watched: list[asyncio.Future[None]] = []
        """What runs all the time, and must not fail."""

    # What a scenario is made of

    @property
    @abstractmethod
    def settings(self) -> dict[str, str]:
        """Of its node, beside those that all nodes have."""

    @abstractmethod
    async def play(self) -> None:
        """All that happens once the broker was started, with the checks."""

    @abstractmethod
    def broker_crashed(self, *, power_loss: bool) -> None:
        """The broker is dead and all it sent has arrived: histories may want to know."""

    def downtime_seconds(self) -> float:
        """How long a dead broker stays dead."""
        return ON_THE_WIRE_SECONDS

    # Running

    async def main(self) -> None:
        self.start_broker()
        self.world = self.simulation.world(self.admin)
        self.connector = Connector(self.world, BROKER, PORT)
        await self.play()

    async def ask(self, question: Coroutine[Any, Any, T]) -> T:
        """Let the admin do something."""
        return await self.simulation.spawn(self.admin, question)

    async def pass_time(self, seconds: float) -> None:
        """Let time pass; an actor whose check failed ends the run here, and a dead broker is started again."""
        await asyncio.sleep(seconds)
        self.check_actors()
        if not self.simulation.machine(BROKER).processes:
            await self.restart_broker()

    def check_actors(self) -> None:
        """Raise what any of them has failed with; to be killed is no failure."""
        for running in self.running():
            if running.done() and not isinstance(running.exception(), HostCrashed):
                running.result()

    def running(self) -> Iterator["asyncio.Future[None]"]:
        yield from self.watched

    # The broker

    def start_broker(self) -> None:
        self.simulation.start(BROKER, self._serve)

    def arm_crash(self) -> None:
        """End the broker between two of its next disk operations."""
        power_loss = self.draw_power_loss()
        operations = self.chance.choice([bound and self.chance.randrange(bound) for bound in self.crash_within])
        self.simulation.crash_at(BROKER, disk_operations=operations, power_loss=power_loss)

    def draw_power_loss(self) -> bool:
        """A power cut may take what was acknowledged, unless every append is flushed first."""
        return self.flush_messages == 1 and self.chance.random() < POWER_LOSS_RATE

    async def crash_once_or_twice(self) -> None:
        """End the broker between two of its disk operations, and have it back; sometimes it dies as it starts."""
        for _ in range(self.chance.choice((1, 1, 2))):
            self.arm_crash()
            await self.wait_for_restart()

    async def wait_for_restart(self) -> None:
        """Until the crash that was ordered has come and the broker was started again."""
        crashes = self.crashes
        while self.crashes == crashes:
            await self.pass_time(LOOK_SECONDS)

    async def restart_broker(self) -> None:
        self.crashes += 1
        await asyncio.sleep(self.downtime_seconds())
        self.broker_crashed(power_loss=self.simulation.machine(BROKER).dark)
        self.start_broker()

    async def _serve(self, world: World) -> None:
        shared = {
            "listeners": f"PLAINTEXT://{BROKER}:{PORT}",
            "log.dirs": DATA_DIRECTORY,
            "log.retention.ms": "-1",
            "node.id": "1",
            "log.index.size.max.bytes": "4096",
            "levada.poison.buffers": "true",
        }
        if self.flush_messages is not None:
            shared["log.flush.interval.messages"] = str(self.flush_messages)
        node = Node(world, node_settings({**shared, **self.settings}))
        await node.start()
        await asyncio.get_running_loop().create_future()
