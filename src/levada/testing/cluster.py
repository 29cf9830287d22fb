"""The simulated broker and processes of a run, as the code in it sees them."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import Context
from typing import Any, TypeAlias, TypeVar

from levada.client.admin import Admin
from levada.client.consumer import Consumer
from levada.client.default_world import SIMULATED
from levada.client.producer import Producer
from levada.client.types import RecordMetadata
from levada.model.config import ConfigError
from levada.node import Node
from levada.node.settings import NodeSettings
from levada.records import ConsumerRecord
from levada.sim import HostCrashed, Simulation
from levada.testing.settings import dotted
from levada.testing.topics import Value, create_topic, produce, read_topic
from levada.testing.waiting import NotInTime, described
from levada.world.world import ClientWorld, World

T = TypeVar("T")

__tracebackhide__ = True

BROKER, APP = "broker", "app"
PORT = 9092
TIMEOUT_SECONDS = 120.0
"""Long enough for a few faults in a row; virtual time costs nothing."""
INTERVAL_SECONDS = 0.05

Main: TypeAlias = "Callable[[Process], Awaitable[Any]]"


class Process:
    """A simulated process with a host of its own: where clients live, and what dies when it is killed."""

    bootstrap = f"{BROKER}:{PORT}"
    """For clients that are made here, by the methods below or by their own names in `levada.aio`."""

    def __init__(self, name: str, world: World, chance: random.Random) -> None:
        self.name = name
        self.random = chance
        """Chance that is the same in every replay; the functions of the module `random` are, too."""
        self._world = ClientWorld(world.clock, world.entropy, world.net)

    def producer(self, **options: Any) -> Producer:
        """An asyncio producer of this process."""
        return Producer(self.bootstrap, world=self._world, **options)

    def consumer(self, *topics: str, **options: Any) -> Consumer:
        """An asyncio consumer of this process that begins with the first record, unless told otherwise."""
        consumer = Consumer(self.bootstrap, world=self._world, **{"auto_offset_reset": "earliest", **options})
        if topics:
            consumer.subscribe(topics)
        return consumer

    def admin(self, **options: Any) -> Admin:
        """An asyncio admin client of this process."""
        return Admin(self.bootstrap, world=self._world, **options)

    def now_ms(self) -> int:
        """Milliseconds since 1970 by this process's clock."""
        return self._world.clock.now_ms()

    async def run(self, main: Main) -> Any:
        """Run the code of a process; clients that it makes by itself find the simulated network."""
        SIMULATED.set(self._world)
        return await main(self)


class Service:
    """A process that is started again whenever it dies."""

    def __init__(self, name: str, main: Main) -> None:
        self.name = name
        self.main = main
        self.starts = 0
        """How often it began, first start included."""
        self.is_done = False
        """Whether its code has returned."""


class Cluster(Process):
    """The process of the app itself, which is never killed, with a hand on everything else in the run."""

    def __init__(self, simulation: Simulation, settings: NodeSettings, verdict: "asyncio.Future[Any]") -> None:
        super().__init__(APP, simulation.world(APP), simulation.chance("process", APP))
        self.services: dict[str, Service] = {}
        self.away_seconds: Callable[[], float] = lambda: 0.0
        """How long a process that died stays away."""
        self.on_crash: Callable[[str], None] = lambda _: None
        self.on_calm: Callable[[], None] = lambda: None
        self._simulation = simulation
        self._settings = settings
        self._verdict = verdict
        self._keepers: list[asyncio.Task[None]] = []
        self._keep(self._keep_broker())

    # Processes

    def start(self, main: Main, name: str | None = None) -> Service:
        """Run `main(process)` as a process of its own, started again whenever a fault kills it.

        An exception that it raises ends the run; a process that may fail catches it.
        """
        name = name or f"{getattr(main, '__name__', 'process')}-{len(self.services) + 1}"
        if name in self.services or name in (BROKER, APP):
            raise ValueError(f"there is a process {name} already")
        service = self.services[name] = Service(name, main)
        self._keep(self._keep_service(service))
        return service

    def kill(self, name: str) -> None:
        """End a process now; it is started again after a while."""
        if self.is_alive(name):
            self._simulation.crash(name, power_loss=False)

    def crash_broker(self, *, power_loss: bool = False) -> None:
        """End the broker now; it is started again after a while."""
        if self.is_alive(BROKER):
            self._simulation.crash(BROKER, power_loss=power_loss)

    def cut(self, name: str = APP) -> None:
        """Let nothing pass between the broker and a process, until `heal`."""
        self._simulation.network.partition(BROKER, name)

    def heal(self) -> None:
        """Let everything pass again."""
        self._simulation.network.heal_all()

    async def calm(self) -> None:
        """From now on nothing goes wrong by chance: the links are healed, and processes that died are started again."""
        self.on_calm()
        self.heal()
        self.away_seconds = lambda: 0.0
        names = [BROKER, *(service.name for service in self.services.values() if not service.is_done)]
        await self.wait_until(lambda: all(self.is_alive(name) for name in names))

    def is_alive(self, name: str) -> bool:
        return bool(self._simulation.machine(name).processes)

    # Topics

    async def create_topic(self, name: str, partitions: int = 1, **configs: object) -> None:
        """A topic with Kafka's topic settings as keywords: `cleanup_policy="compact"`."""
        admin = self.admin()
        try:
            await create_topic(admin, name, partitions, dotted(None, configs))
        finally:
            await admin.close()

    async def produce(
        self,
        topic: str,
        values: Iterable[Value],
        *,
        partition: int | None = None,
        headers: Mapping[str, bytes] | None = None,
        timestamp_ms: int | None = None,
    ) -> list[RecordMetadata]:
        """Send values, or (key, value) pairs, of bytes or str, and wait until they are acknowledged."""
        async with self.producer() as producer:
            return await produce(
                producer, topic, values, partition=partition, headers=headers, timestamp_ms=timestamp_ms
            )

    async def records(self, topic: str, *, isolation_level: str = "read_uncommitted") -> list[ConsumerRecord]:
        """All records that a topic has now, by partition and offset."""
        return await self.wait_for_records(topic, 0, isolation_level=isolation_level)

    async def wait_for_records(
        self,
        topic: str,
        count: int = 1,
        timeout: float = TIMEOUT_SECONDS,
        *,
        isolation_level: str = "read_uncommitted",
    ) -> list[ConsumerRecord]:
        """All records of a topic, which need not exist yet, once there are `count` or more; else NotInTime."""
        return await read_topic(self.consumer, topic, count, timeout, isolation_level)

    async def wait_until(self, condition: Callable[[], T], timeout: float = TIMEOUT_SECONDS) -> T:
        """Ask again and again until the answer is true, and return it; NotInTime after `timeout` virtual seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while not (answer := condition()):
            if loop.time() >= deadline:
                raise NotInTime(f"{described(condition)} was still {answer!r} after {timeout} virtual s")
            await asyncio.sleep(INTERVAL_SECONDS)
        return answer

    # Keeping processes alive

    def _keep(self, keeping: Any) -> None:
        # In no process: it outlives those it keeps.
        task = self._simulation.loop.create_task(keeping, context=Context())
        task.add_done_callback(self._check_keeper, context=Context())
        self._keepers.append(task)

    def _check_keeper(self, task: "asyncio.Future[None]") -> None:
        """What a process raised ends the run."""
        if not task.cancelled() and (error := task.exception()) is not None and not self._verdict.done():
            self._verdict.set_exception(error)

    async def _keep_service(self, service: Service) -> None:
        while True:
            service.starts += 1
            chance = self._simulation.chance("process", service.name, str(service.starts))
            process = Process(service.name, self._simulation.world(service.name), chance)
            try:
                await self._simulation.spawn(service.name, process.run(service.main))
            except HostCrashed:
                self.on_crash(service.name)
                await asyncio.sleep(self.away_seconds())
                continue
            service.is_done = True
            return

    async def _keep_broker(self) -> None:
        while True:
            try:
                await self._simulation.start(BROKER, self._serve)
            except HostCrashed:
                self.on_crash(BROKER)
            except (OSError, ConfigError):
                # Its disk failed while it started; another one tries again.
                self.crash_broker()
            await asyncio.sleep(max(self.away_seconds(), INTERVAL_SECONDS))

    async def _serve(self, world: World) -> None:
        await Node(world, self._settings).start()
        await asyncio.get_running_loop().create_future()
