"""A disk that fails under a whole simulated node: errors reach the client, and nothing acknowledged is lost."""

import asyncio
import os
from collections.abc import Awaitable, Callable

import pytest

from levada.model.error_codes import ErrorCode
from levada.node import Node, node_settings
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.records import build_batch
from levada.sim import Simulation
from levada.sim.checkers.partition_log import read_log
from levada.sim.requests.connections import Connector
from levada.sim.requests.topics import create_topic
from levada.sim.world import DATA_DIRECTORY
from levada.sim.world.pages import Pages
from levada.storage.log_directory import CLEAN_SHUTDOWN
from levada.world.world import World
from tests.logs import check_indexes

BROKER, CLIENT, PORT, TOPIC = "broker", "client", 9092, "failing"
SEEDS = range(200 if os.environ.get("LEVADA_SOAK") == "1" else 10)
NONE, STORAGE_ERROR = ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR
LOG = f"{TOPIC}-0/"


class Scenario:
    """One node that flushes before it acknowledges, one client, and the disk between them and the truth."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.machine = simulation.machine(BROKER)
        self._client = simulation.world(CLIENT)
        self.faults = self.machine.file_system.faults
        self.chance = simulation.chance("disk errors")
        self.acknowledged: dict[int, bytes] = {}
        self.refused: list[bytes] = []
        self.unanswered: dict[bytes, None] = {}
        self.sent = 0

    def start(self) -> None:
        self._stopping = asyncio.Event()
        self._serving = self.simulation.start(BROKER, self._serve)

    async def _serve(self, world: World) -> None:
        settings = {
            "listeners": f"PLAINTEXT://{BROKER}:{PORT}",
            "log.dirs": DATA_DIRECTORY,
            "node.id": "1",
            "log.segment.bytes": "1048576",
            "log.index.size.max.bytes": "480",
            "log.index.interval.bytes": "100",
            "log.flush.interval.messages": "1",
        }
        node = Node(world, node_settings(settings))
        await node.start()
        await self._stopping.wait()
        await node.stop()

    async def stop(self) -> None:
        """As SIGTERM does."""
        self._stopping.set()
        await self._serving
        self.simulation.crash(BROKER, power_loss=False)

    async def restart(self, *, power_loss: bool) -> None:
        self.simulation.crash(BROKER, power_loss=power_loss)
        self.start()

    def connect(self) -> Connector:
        return Connector(self._client, BROKER, PORT)

    async def produce(self, connector: Connector) -> int:
        """Send one more value; the code of the answer."""
        value = b"%d-" % self.sent + bytes(self.chance.randrange(200))
        self.sent += 1
        self.unanswered[value] = None
        data = PartitionProduceData(index=0, records=build_batch([(0, None, value, ())]))
        topic = TopicProduceData(name=TOPIC, partition_data=[data])
        response = await connector.call(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic]), 9)
        partition = response.responses[0].partition_responses[0]
        del self.unanswered[value]
        if partition.error_code == NONE:
            assert partition.base_offset not in self.acknowledged
            self.acknowledged[partition.base_offset] = value
        else:
            self.refused.append(value)
        return int(partition.error_code)

    def size_of_log(self) -> int:
        found = self.machine.file_system.find(f"{DATA_DIRECTORY}/{LOG}{0:020d}.log")
        assert isinstance(found, Pages)
        return len(found.data)

    async def fetch_code(self, connector: Connector) -> int:
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic=TOPIC, partitions=[wanted])]
        response = await connector.call(FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics), 12)
        return int(response.responses[0].partitions[0].error_code)

    async def check(self, connector: Connector) -> None:
        """All that was acknowledged is there; what was refused may be, once, and nothing else is."""
        log = await read_log(connector, TOPIC, 0)
        assert [offset for offset, _ in log] == list(range(len(log)))
        stored = dict(log)
        for offset, value in self.acknowledged.items():
            assert stored.get(offset) == value, offset
        others = [value for offset, value in log if offset not in self.acknowledged]
        assert len(set(others)) == len(others)
        assert set(others) <= {*self.refused, *self.unanswered}


def run(seed: int, session: Callable[[Scenario, Connector], Awaitable[None]]) -> None:
    with Simulation(seed) as simulation:
        scenario = Scenario(simulation)

        async def main() -> None:
            scenario.start()
            connector = scenario.connect()

            async def client() -> None:
                await create_topic(connector, TOPIC, 1)
                for _ in range(scenario.chance.randrange(30)):
                    assert await scenario.produce(connector) == NONE
                await session(scenario, connector)
                connector.close()

            await simulation.spawn(CLIENT, client())

        simulation.run(main(), limit_ms=600_000)
        simulation.crash(BROKER, power_loss=False)
        disk = simulation.world(BROKER).disk
        check_indexes(f"{DATA_DIRECTORY}/{TOPIC}-0", disk)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_write_that_fails_is_refused_and_the_next_one_goes_on(seed: int) -> None:
    async def session(scenario: Scenario, connector: Connector) -> None:
        for _ in range(5):
            scenario.faults.fail_next("append", path_part=f"{LOG}{0:05d}")
            while await scenario.produce(connector) == NONE:
                pass
            assert await scenario.produce(connector) == NONE
            await scenario.check(connector)
        await scenario.restart(power_loss=seed % 2 == 0)
        await scenario.check(connector)
        assert await scenario.produce(connector) == NONE

    run(seed, session)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_write_that_cannot_be_taken_back_takes_the_log_offline_until_a_restart(seed: int) -> None:
    async def session(scenario: Scenario, connector: Connector) -> None:
        scenario.faults.fail_next("append", path_part=".log")
        scenario.faults.fail_next("truncate", path_part=".log")
        capacity = scenario.machine.file_system
        capacity.capacity = capacity.used + 20
        assert await scenario.produce(connector) == STORAGE_ERROR
        capacity.capacity = None
        if await scenario.produce(connector) == STORAGE_ERROR:
            assert await scenario.fetch_code(connector) == STORAGE_ERROR
        await scenario.restart(power_loss=seed % 2 == 0)
        await scenario.check(connector)
        assert await scenario.produce(connector) == NONE
        await scenario.check(connector)

    run(seed, session)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("ending", ["kill", "power loss", "stop"])
def test_a_sync_that_fails_takes_the_log_offline_and_is_never_repeated(seed: int, ending: str) -> None:
    async def session(scenario: Scenario, connector: Connector) -> None:
        scenario.faults.fail_next("sync", path_part=f"{LOG}{0:05d}")
        assert await scenario.produce(connector) == STORAGE_ERROR
        for _ in range(3):
            assert await scenario.produce(connector) == STORAGE_ERROR
            assert await scenario.fetch_code(connector) == STORAGE_ERROR
        if ending == "stop":
            await scenario.stop()
            names = scenario.machine.file_system.find_directory(DATA_DIRECTORY).entries
            assert CLEAN_SHUTDOWN not in names
            scenario.start()
        else:
            await scenario.restart(power_loss=ending == "power loss")
        await scenario.check(connector)
        assert await scenario.produce(connector) == NONE
        # A machine that goes on after a failed sync has pages in memory that no later sync writes: only one that has
        # lost its power knows what is on its device.
        await scenario.restart(power_loss=ending == "power loss")
        await scenario.check(connector)

    run(seed, session)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_sync_that_fails_when_its_client_is_gone_is_not_forgotten(seed: int) -> None:
    async def session(scenario: Scenario, connector: Connector) -> None:
        scenario.faults.fail_next("sync", path_part=f"{LOG}{0:05d}")
        leaving = scenario.connect()
        produced = asyncio.ensure_future(scenario.produce(leaving))
        size = scenario.size_of_log()
        while scenario.size_of_log() == size:
            await asyncio.sleep(0.0001)
        produced.cancel()
        leaving.close()
        for _ in range(3):
            assert await scenario.produce(connector) == STORAGE_ERROR
        await scenario.restart(power_loss=True)
        await scenario.check(connector)
        assert await scenario.produce(connector) == NONE

    run(seed, session)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_errors_of_every_kind_lose_nothing_that_was_acknowledged(seed: int) -> None:
    async def session(scenario: Scenario, connector: Connector) -> None:
        for _ in range(4):
            operation = scenario.chance.choice(("append", "sync", "truncate", "open", "rename"))
            scenario.faults.fail_randomly(operation, 0.2)
            for _ in range(20):
                assert await scenario.produce(connector) in (NONE, STORAGE_ERROR)
            scenario.faults.fail_randomly(operation, 0.0)
            await scenario.restart(power_loss=operation == "sync" or scenario.chance.random() < 0.5)
            await scenario.check(connector)
            assert await scenario.produce(connector) == NONE

    run(seed, session)
