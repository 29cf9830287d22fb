"""A simulated broker with our consumers on hosts of their own: hours in a second, and the same every time."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any, TypeVar

import pytest

from levada.client.consumer.consumer import Consumer
from levada.client.consumer.coordinator import GroupCoordinatorLookup
from levada.client.errors import CommitFailed, KafkaError, RebalanceInProgress, TimedOut
from levada.client.types import TopicPartition
from levada.node import Node, node_settings
from levada.protocol.api import ApiKey
from levada.protocol.messages.delete_topics import DeleteTopicsRequest
from levada.sim.actors.idempotent_producer import IdempotentProducer
from levada.sim.checkers import PartitionHistory
from levada.sim.requests.connections import Connector
from levada.sim.requests.topics import create_topic
from levada.sim.world import DATA_DIRECTORY, Simulation
from levada.world.world import ClientWorld, World

T = TypeVar("T")

BROKER, USER = "broker", "user"
PORT = 9092
DELETE_VERSION = 5
LOOK_SECONDS = 0.05
WAIT_SECONDS = 300.0
SESSION_MS, HEARTBEAT_MS = 6_000, 500
SETTINGS = {
    "log.segment.bytes": "1048576",
    "log.index.size.max.bytes": "4096",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.assignment.interval.ms": "0",
}


class Town:
    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.network = simulation.network
        self._connector: Connector | None = None
        self._hosts = 0

    def start_broker(self) -> None:
        self.simulation.start(BROKER, _serve)

    def crash_broker(self) -> None:
        self.simulation.crash(BROKER, power_loss=False)

    async def topic(self, name: str, partitions: int) -> None:
        await self.simulation.spawn(USER, create_topic(self.connector, name, partitions))

    async def drop(self, name: str) -> None:
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=1_000)
        await self.simulation.spawn(USER, self.connector.call(request, DELETE_VERSION))

    async def produce(self, topic: str, partition: int, values: list[bytes]) -> None:
        clock = self.simulation.loop
        producer = IdempotentProducer(self.connector, lambda: int(clock.time() * 1_000), topic, partition)
        await self.simulation.spawn(USER, producer.send(values, PartitionHistory()))

    @property
    def connector(self) -> Connector:
        if self._connector is None:
            self._connector = Connector(self.simulation.world(USER), BROKER, PORT)
        return self._connector

    def member(self, topic: str, group: str = "group", **options: Any) -> "SimMember":
        self._hosts += 1
        return SimMember(self, f"host{self._hosts}", topic, group, options)


class SimMember:
    """A consumer in a process of its own, which polls for ever unless it is told not to."""

    def __init__(self, town: Town, host: str, topic: str, group: str, options: dict[str, Any]) -> None:
        self.host = host
        self.told: list[tuple[str, list[int]]] = []
        self.had: list[tuple[int, int]] = []
        """Generations, and partitions that it had in them."""
        self.values: list[bytes] = []
        self.is_polling = True
        self.failure: KafkaError | None = None
        self._is_behind = False
        self._town = town
        world = town.simulation.world(host)
        settings: dict[str, Any] = {
            "group_id": group,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "request_timeout_ms": 5_000,
            "metadata_max_age_ms": 5_000,
        }
        if options.get("group_protocol") != "consumer":
            settings |= {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": HEARTBEAT_MS}
        doors = ClientWorld(world.clock, world.entropy, world.net)
        self.consumer = Consumer(f"{BROKER}:{PORT}", world=doors, **(settings | options))
        self.consumer.subscribe([topic], listener=self)

    @property
    def partitions(self) -> set[int]:
        return {one.partition for one in self.consumer.assignment()}

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.told.append(("revoked", [one.partition for one in partitions]))

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        generation = self.consumer.group_metadata().generation_id
        self.had += [(generation, one.partition) for one in self.consumer.assignment()]
        self.told.append(("assigned", [one.partition for one in partitions]))

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.told.append(("lost", [one.partition for one in partitions]))

    def start(self) -> "SimMember":
        self._town.simulation.spawn(self.host, self._live())
        return self

    async def do(self, what: Coroutine[Any, Any, T]) -> T:
        """Something in its process."""
        return await self._town.simulation.spawn(self.host, what)

    async def _live(self) -> None:
        try:
            while True:
                if not self.is_polling:
                    await asyncio.sleep(LOOK_SECONDS)
                    continue
                records = await self.consumer.poll(0.5)
                self.values += [record.value or b"" for record in records]
                self._is_behind |= bool(records)
                if self._is_behind:
                    await self._commit()
        except KafkaError as error:
            self.failure = error

    async def _commit(self) -> None:
        try:
            await self.consumer.commit(timeout=5)
            self._is_behind = False
        except (CommitFailed, RebalanceInProgress, TimedOut):
            return


async def until(is_true: Callable[[], bool]) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + WAIT_SECONDS
    while not is_true():
        assert loop.time() < deadline, "waited for nothing"
        await asyncio.sleep(LOOK_SECONDS)


def simulate(main: Callable[[Town], Coroutine[Any, Any, None]], seed: int = 1) -> str:
    """Run a test in a town with a broker; the digest of all that happened."""
    with Simulation(seed) as simulation:
        town = Town(simulation)
        town.start_broker()
        simulation.run(main(town))
        return simulation.trace.digest()


def speak_at_most(monkeypatch: pytest.MonkeyPatch, versions: Mapping[ApiKey, int]) -> None:
    """Talk to coordinators as if they were old."""
    ask = GroupCoordinatorLookup.ask

    async def ask_in_old_words(self: GroupCoordinatorLookup, api_key: int, build: Any, **bounds: Any) -> Any:
        limits = [limit for limit in (bounds.pop("at_most", None), versions.get(ApiKey(api_key))) if limit is not None]
        return await ask(self, api_key, build, **bounds, at_most=min(limits, default=None))

    monkeypatch.setattr(GroupCoordinatorLookup, "ask", ask_in_old_words)


async def _serve(world: World) -> None:
    settings = {"listeners": f"PLAINTEXT://{BROKER}:{PORT}", "log.dirs": DATA_DIRECTORY, "node.id": "1"}
    node = Node(world, node_settings(settings | SETTINGS))
    await node.start()
    await asyncio.get_running_loop().create_future()
