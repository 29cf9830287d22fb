"""A simulated broker with two directories, and a log that has everything a move must take along."""

import asyncio
import copy
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from levada.client.admin import ConfigResource, NewTopic
from levada.client.admin.admin import Admin
from levada.client.producer import Producer
from levada.client.types import TopicPartition
from levada.model.error_codes import ErrorCode
from levada.node import Node, node_settings
from levada.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.records import build_batch, iter_batches
from levada.sim import Simulation
from levada.sim.requests.connections import Connector
from levada.sim.world.filesystem import FileSystem
from levada.world.world import ClientWorld, World

T = TypeVar("T")

BROKER, CLIENT, PORT = "broker", "client", 9092
BOOTSTRAP = f"{BROKER}:{PORT}"
FIRST, SECOND = "/data/first", "/data/second"
TOPIC, LOG = "moving", "moving-0"
UNENDED = "unended"
LOOK_SECONDS = 0.05
WAIT_SECONDS = 120.0
COMPACTED = {"cleanup.policy": "compact,delete", "internal.segment.bytes": "2000", "min.cleanable.dirty.ratio": "0.01"}
SETTINGS = {
    "listeners": f"PLAINTEXT://{BROKER}:{PORT}",
    "log.dirs": f"{FIRST},{SECOND}",
    "node.id": "1",
    "log.index.size.max.bytes": "480",
    "log.index.interval.bytes": "300",
    "log.flush.interval.messages": "1",
    "log.cleaner.backoff.ms": "100",
    "log.segment.delete.delay.ms": "100",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.segment.bytes": "1048576",
}
NONE = ErrorCode.NONE
EARLIEST = -2


@dataclass(frozen=True)
class Content:
    """What a reader can learn of the log."""

    records: dict[int, bytes]
    start_offset: int
    last_stable_offset: int
    end_offset: int
    aborted: list[tuple[int, int]]


@dataclass
class Sequence:
    """An idempotent producer as the broker knows it."""

    producer_id: int = -1
    batches: list[tuple[int, list[bytes], int]] = field(default_factory=list)
    """First sequence number, values, and the offset of those that were acknowledged."""

    @property
    def next_number(self) -> int:
        return self.batches[-1][0] + len(self.batches[-1][1]) if self.batches else 0

    def acknowledged_from(self, first: int) -> dict[int, bytes]:
        """By offset."""
        found = {offset + n: value for _, values, offset in self.batches for n, value in enumerate(values)}
        return {offset: value for offset, value in found.items() if offset >= first}


@dataclass(frozen=True)
class Prepared:
    files: FileSystem
    content: Content
    writer: Sequence


class Town:
    """One broker that flushes before it acknowledges, and a client that asks until it is answered."""

    def __init__(self, simulation: Simulation, files: FileSystem | None = None) -> None:
        self.simulation = simulation
        self.machine = simulation.machine(BROKER)
        if files is None:
            for directory in (FIRST, SECOND):
                self.machine.file_system.make_directories(directory)
            self.machine.file_system.commit(self.machine.file_system.pending())
        else:
            # The power cut of each simulation takes something else.
            self.machine.file_system = copy.deepcopy(files, {id(files._chance): simulation.chance("disk", BROKER)})
        world = simulation.world(CLIENT)
        self.doors = ClientWorld(world.clock, world.entropy, world.net)
        self.connector = Connector(world, BROKER, PORT)
        self._now_ms = world.clock.now_ms

    def start(self, change: Callable[[World], World] = lambda world: world) -> None:
        """A new process of the broker; its doors may be others than usual."""
        self.simulation.start(BROKER, lambda world: _serve(change(world)))

    def crash(self, *, power_loss: bool) -> None:
        self.simulation.crash(BROKER, power_loss=power_loss)

    async def as_client(self, what: Coroutine[Any, Any, T]) -> T:
        return await self.simulation.spawn(CLIENT, what)

    def names(self) -> dict[str, list[str]]:
        """What of the log is in each directory."""
        files = self.machine.file_system
        return {
            directory: sorted(name for name in files.find_directory(directory).entries if name.startswith(LOG))
            for directory in (FIRST, SECOND)
        }

    async def begin_move(self, target: str) -> None:
        wanted = AlterReplicaLogDir(path=target, topics=[AlterReplicaLogDirTopic(name=TOPIC, partitions=[0])])
        response: Any = await self.connector.call(AlterReplicaLogDirsRequest(dirs=[wanted]), 2)
        assert response.results[0].partitions[0].error_code == NONE

    async def new_producer(self, transactional_id: str | None = None) -> int:
        """Its id; with a transactional one, what it has not ended is aborted."""
        while True:
            request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=600_000)
            response: Any = await self.connector.call(request, 4)
            if response.error_code == NONE:
                return int(response.producer_id)
            await asyncio.sleep(LOOK_SECONDS)

    async def send(self, writer: Sequence, values: list[bytes]) -> None:
        """One batch, until it is acknowledged."""
        number = writer.next_number
        while True:
            code, offset = await self.produce(writer.producer_id, number, values)
            if code == NONE:
                writer.batches.append((number, values, offset))
                return
            # Its sequence is known before and after every crash: what was acknowledged was flushed.
            assert code in RETRIED, ErrorCode(code)
            await asyncio.sleep(LOOK_SECONDS)

    async def produce(self, producer_id: int, number: int, values: list[bytes]) -> tuple[int, int]:
        records = [(self._now_ms(), value[:2], value, ()) for value in values]
        batch = build_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=number)
        topic = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=batch)])
        request = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic])
        response: Any = await self.connector.call(request, 9)
        answer = response.responses[0].partition_responses[0]
        return answer.error_code, answer.base_offset

    async def read(self) -> Content:
        """All records, whether their transactions were committed or not, and the bounds."""
        records: dict[int, bytes] = {}
        position = await self._start_offset()
        while True:
            found = await self._fetch(position)
            before = position
            for batch in iter_batches(found.records):
                batch.validate()
                if not batch.is_control:
                    new = [record for record in batch.records() if record.offset >= before]
                    records.update((record.offset, record.value or b"") for record in new)
                position = max(position, batch.next_offset)
            if position >= found.high_watermark:
                start, stable = found.log_start_offset, found.last_stable_offset
                return Content(records, start, stable, found.high_watermark, await self._aborted(start, stable))
            assert position > before, f"a fetch at {before} brings nothing"

    async def _start_offset(self) -> int:
        wanted = ListOffsetsPartition(partition_index=0, timestamp=EARLIEST)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=[wanted])])
        while True:
            response: Any = await self.connector.call(request, 7)
            answer = response.topics[0].partitions[0]
            if answer.error_code == NONE:
                return int(answer.offset)
            assert answer.error_code in RETRIED, ErrorCode(answer.error_code)
            await asyncio.sleep(LOOK_SECONDS)

    async def _aborted(self, start_offset: int, stable_offset: int) -> list[tuple[int, int]]:
        """Producer and first offset of what readers of committed records are told to leave out."""
        aborted: dict[tuple[int, int], None] = {}
        position = start_offset
        while position < stable_offset:
            found = await self._fetch(position, isolation_level=1)
            aborted |= {(one.producer_id, one.first_offset): None for one in found.aborted_transactions}
            position = max([position, *(batch.next_offset for batch in iter_batches(found.records))])
        return list(aborted)

    async def _fetch(self, offset: int, isolation_level: int = 0) -> Any:
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic=TOPIC, partitions=[wanted])]
        request = FetchRequest(max_wait_ms=0, min_bytes=1, isolation_level=isolation_level, topics=topics)
        while True:
            response: Any = await self.connector.call(request, 12)
            found = response.responses[0].partitions[0]
            if found.error_code == NONE:
                return found
            assert found.error_code in RETRIED, ErrorCode(found.error_code)
            await asyncio.sleep(LOOK_SECONDS)


RETRIED = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
"""Errors that pass, on which clients try again."""


async def until(is_so: Callable[[], bool], what: str) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + WAIT_SECONDS
    while not is_so():
        assert loop.time() < deadline, what
        await asyncio.sleep(LOOK_SECONDS)


def prepare(seed: int) -> Prepared:
    """The files of a broker that was killed, with the log in its first directory."""
    with Simulation(seed) as simulation:
        town = Town(simulation)
        writer = Sequence()

        async def main() -> Content:
            town.start()
            await town.as_client(_fill(town, writer))
            content = await town.as_client(town.read())
            town.connector.close()
            return content

        content = simulation.run(main(), limit_ms=600_000)
        town.crash(power_loss=False)
        assert town.names() == {FIRST: [LOG], SECOND: []}
        return Prepared(town.machine.file_system, content, writer)


async def _fill(town: Town, writer: Sequence) -> None:
    """Segments with gaps that cleaning has left, ended transactions, a raised beginning, and one that goes on."""
    await leave_gaps(town, writer)
    await transact(town, "late", [False, True, False])
    end = (await town.read()).end_offset
    async with Admin(BOOTSTRAP, world=town.doors) as admin:
        (await admin.delete_records({TopicPartition(TOPIC, 0): end // 3})).raise_any()
    await transact(town, UNENDED, [None])
    for number in range(32, 36):
        await town.send(writer, [_value(number % 5, number, size=300)])
    # A new beginning is written down at the next tick.
    await asyncio.sleep(2.0)


async def leave_gaps(town: Town, writer: Sequence) -> None:
    """A log that was compacted, and is not to be any more."""
    async with Admin(BOOTSTRAP, world=town.doors) as admin:
        (await admin.create_topics([NewTopic(TOPIC, 1, configs=COMPACTED)])).raise_any()
        writer.producer_id = await town.new_producer()
        for number in range(16):
            await town.send(writer, [_value(number % 5, number, size=150)])
        await transact(town, "early", [True, False])
        for number in range(16, 32):
            await town.send(writer, [_value(number % 5, number, size=150)])
        await _until_cleaned(town)
        plain = {ConfigResource.topic(TOPIC): {"cleanup.policy": "delete"}}
        (await admin.incremental_alter_configs(plain)).raise_any()


def _value(key: int, number: int, size: int) -> bytes:
    return b"%d:%d-" % (key, number) + bytes(size)


async def _until_cleaned(town: Town) -> None:
    """Gaps below the active segment, and no pass under way that would make more."""
    sizes = [len((await town.read()).records)]
    while len(set(sizes[-3:])) > 1 or sizes[-1] == sizes[0]:
        sizes.append(len((await town.read()).records))
        assert len(sizes) < 100, "it is not cleaned"
        await asyncio.sleep(1.0)


async def transact(town: Town, transactional_id: str, ends: list[bool | None]) -> None:
    """Transactions that are committed, aborted, or left open by a client that is gone."""
    producer = Producer(BOOTSTRAP, world=town.doors, transactional_id=transactional_id, transaction_timeout_ms=600_000)
    await producer.init_transactions()
    for number, is_commit in enumerate(ends):
        await producer.begin_transaction()
        handles = [
            await producer.send(TOPIC, _value(9, n, 100), key=b"%s-%d-%d" % (transactional_id.encode(), number, n))
            for n in range(3)
        ]
        await producer.flush()
        assert all([(await handle).offset >= 0 for handle in handles])
        if is_commit is not None:
            await (producer.commit_transaction() if is_commit else producer.abort_transaction())
    if None not in ends:
        await producer.close()


async def _serve(world: World) -> None:
    node = Node(world, node_settings(SETTINGS))
    await node.start()
    await asyncio.get_running_loop().create_future()
