"""A simulated node that cleans one topic and deletes from another, under load, and dies at a disk operation."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from levada.model.error_codes import ErrorCode
from levada.node import Node, node_settings
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from levada.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.records import build_batch, iter_batches
from levada.sim.actors.idempotent_producer import IdempotentProducer
from levada.sim.checkers import CheckFailed, PartitionHistory
from levada.sim.requests.connections import Connector
from levada.sim.requests.topics import create_topic, records_of
from levada.sim.world import DATA_DIRECTORY, Simulation
from levada.world.world import World

BROKER, CLIENT = "broker", "client"
PORT = 9092
COMPACTED, EXPIRING = "compacted", "expiring"
KEYS = 6
ROUNDS_BEFORE, ROUNDS_AFTER = 14, 12
ROUND_SECONDS = 0.25
RETENTION_MS = 4_000
QUIET_SECONDS = 8.0
EARLIEST = -2
LEFTOVERS = (".cleaned", ".swap", ".deleted")
CLEAN_END = "cleaner-offset-checkpoint"
LIMIT_MS = 10 * 60_000

# Each batch is on the device before it is acknowledged, so that not even a power cut may take it.
TOPICS = {
    COMPACTED: {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "2000",
        "segment.ms": "500",
        "flush.messages": "1",
        "file.delete.delay.ms": "1000",
    },
    EXPIRING: {
        "cleanup.policy": "delete",
        "retention.ms": str(RETENTION_MS),
        "segment.ms": "500",
        "flush.messages": "1",
        "file.delete.delay.ms": "1000",
    },
}


@dataclass(frozen=True, slots=True)
class Death:
    """Before which disk operation of the broker that cleans, counted from its start."""

    operation: int
    power_loss: bool


Row = tuple[bytes, bytes | None]
"""Key and value."""


class KeyedProducer(IdempotentProducer):
    """Sends `key=value`; nothing behind the sign is a tombstone."""

    def __init__(self, connector: Connector, clock_ms: Callable[[], int], topic: str) -> None:
        super().__init__(connector, clock_ms, topic, 0)

    async def _produce(self, values: list[bytes]) -> tuple[int, int]:
        batch = build_batch(
            [(self._clock_ms(), *keyed(value), ()) for value in values],
            producer_id=self.producer_id,
            producer_epoch=0,
            base_sequence=self._next_sequence,
        )
        topic = TopicProduceData(name=self._topic, partition_data=[PartitionProduceData(index=0, records=batch)])
        response = await self._connector.call(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic]), 9)
        partition = response.responses[0].partition_responses[0]
        return partition.error_code, partition.base_offset


def keyed(value: bytes) -> Row:
    key, _, rest = value.partition(b"=")
    return key, rest or None


class CleanedNode:
    """The scenario: write without a cleaner, start anew with a cleaner, die in it or not, start again, and look."""

    def __init__(self, simulation: Simulation, death: Death | None) -> None:
        self._simulation = simulation
        self._death = death
        self._chance = simulation.chance("cleaned node")
        self.histories = {topic: PartitionHistory() for topic in TOPICS}
        self._sent_ms: dict[bytes, int] = {}
        self.has_died = False

    async def main(self) -> None:
        self._start(cleans=False)
        client = self._simulation.world(CLIENT)
        connector = Connector(client, BROKER, PORT)
        for topic, configs in TOPICS.items():
            await self._simulation.spawn(CLIENT, create_topic(connector, topic, 1, configs))
        producers = {
            topic: KeyedProducer(Connector(client, BROKER, PORT), client.clock.now_ms, topic) for topic in TOPICS
        }
        await self._simulation.spawn(CLIENT, self._write(client, producers, ROUNDS_BEFORE, self._early_values))
        self._simulation.crash(BROKER, power_loss=False)
        if self._death is not None:
            death = self._death
            self._simulation.crash_at(BROKER, disk_operations=death.operation, power_loss=death.power_loss)
        self._start(cleans=True)
        writing = self._simulation.spawn(CLIENT, self._write(client, producers, ROUNDS_AFTER, self._values))
        if self._death is not None:
            await self._wait_for_death()
            self.has_died = True
            self._start(cleans=True)
        await writing
        await asyncio.sleep(QUIET_SECONDS)
        await self._simulation.spawn(CLIENT, self._check(client, connector))
        self._check_files()

    def _start(self, *, cleans: bool) -> None:
        self._simulation.start(BROKER, lambda world: _serve(world, cleans=cleans))

    async def _wait_for_death(self) -> None:
        while self._simulation.machine(BROKER).processes:
            await asyncio.sleep(0.01)

    async def _write(
        self, client: World, producers: dict[str, KeyedProducer], rounds: int, choose: Callable[[int], list[bytes]]
    ) -> None:
        for number in range(rounds):
            for topic, producer in producers.items():
                values = choose(number)
                self._sent_ms |= dict.fromkeys(values, client.clock.now_ms())
                await producer.send(values, self.histories[topic])
            await asyncio.sleep(ROUND_SECONDS)

    def _early_values(self, number: int) -> list[bytes]:
        """With keys that are never written again: one that stays, and one that is deleted two rounds later."""
        lasting = [b"once-%d=%d" % (number, number), b"gone-%d=%d" % (number, number), b"gone-%d=" % (number - 2)]
        return [*self._values(number), *lasting]

    def _values(self, number: int) -> list[bytes]:
        return [self._value(number) for _ in range(self._chance.randint(1, 4))]

    def _value(self, number: int) -> bytes:
        """Unique where it is one; a tombstone has nothing to tell it from the next."""
        key = b"key-%d" % self._chance.randrange(KEYS)
        if self._chance.random() < 0.2:
            return key + b"="
        return key + b"=%d-%d" % (number, self._chance.randrange(2**40)) + bytes(self._chance.choice((0, 300)))

    # Checking

    async def _check(self, client: World, connector: Connector) -> None:
        for topic, history in self.histories.items():
            start = await _log_start(connector, topic)
            found = await _read(connector, topic, start)
            for offset, row in found.items():
                written = history.acknowledged.get(offset)
                if written is None or keyed(written) != row:
                    raise CheckFailed(f"{topic}: {row} is at {offset}, where {written!r} was written")
            if topic == COMPACTED:
                self._check_compacted(history, found)
            else:
                self._check_expired(history, found, start, client.clock.now_ms())

    def _check_compacted(self, history: PartitionHistory, found: dict[int, Row]) -> None:
        latest = {keyed(value)[0]: offset for offset, value in sorted(history.acknowledged.items())}
        for key, offset in latest.items():
            if keyed(history.acknowledged[offset])[1] is not None and offset not in found:
                raise CheckFailed(f"the last value of {key!r}, at {offset}, is gone")
        for offset in found:
            key, _ = keyed(history.acknowledged[offset])
            if offset < latest[key] and latest[key] not in found:
                raise CheckFailed(f"{key!r} was deleted at {latest[key]}, and its value at {offset} is back")
        if len(found) > len(history.acknowledged) * 0.8:
            raise CheckFailed(f"{len(found)} of {len(history.acknowledged)} records are left: nothing was cleaned")

    def _check_expired(self, history: PartitionHistory, found: dict[int, Row], start: int, now_ms: int) -> None:
        missing = [offset for offset in history.acknowledged if offset >= start and offset not in found]
        if missing:
            raise CheckFailed(f"the log begins at {start}, and {missing[0]} is gone")
        too_early = [
            offset
            for offset, value in history.acknowledged.items()
            if offset < start and now_ms - self._sent_ms.get(value, 0) <= RETENTION_MS
        ]
        if too_early:
            raise CheckFailed(f"{too_early[-1]} was to stay, and the log begins at {start}")
        if not start:
            raise CheckFailed("nothing was deleted")

    def _check_files(self) -> None:
        for topic in TOPICS:
            directory = self._simulation.machine(BROKER).file_system.find_directory(f"{DATA_DIRECTORY}/{topic}-0")
            left = [name for name in directory.entries if name.endswith(LEFTOVERS)]
            if left:
                raise CheckFailed(f"{topic}: {left} lie about")


async def _log_start(connector: Connector, topic: str) -> int:
    partition = ListOffsetsPartition(partition_index=0, timestamp=EARLIEST)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])])
    response = await connector.call(request, 7)
    found = response.topics[0].partitions[0]
    assert found.error_code == ErrorCode.NONE, ErrorCode(found.error_code)
    return int(found.offset)


async def _read(connector: Connector, topic: str, start: int) -> dict[int, Row]:
    """Every record, by its offset."""
    rows: dict[int, Row] = {}
    next_offset = start
    while True:
        wanted = FetchPartition(partition=0, fetch_offset=next_offset, partition_max_bytes=8_192)
        topics = [FetchTopic(topic=topic, partitions=[wanted])]
        response = await connector.call(FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics), 12)
        found = response.responses[0].partitions[0]
        assert found.error_code == ErrorCode.NONE, ErrorCode(found.error_code)
        before = next_offset
        for batch in iter_batches(records_of(found)):
            batch.validate()
            rows |= {one.offset: (one.key or b"", one.value) for one in batch.records() if one.offset >= start}
            next_offset = batch.next_offset
        if next_offset >= found.high_watermark:
            return rows
        if next_offset == before:
            raise CheckFailed(f"{topic}: nothing at {before} though the log ends at {found.high_watermark}")


async def _serve(world: World, *, cleans: bool) -> None:
    settings = node_settings(
        {
            "listeners": f"PLAINTEXT://{BROKER}:{PORT}",
            "log.dirs": DATA_DIRECTORY,
            "node.id": "1",
            "log.index.interval.bytes": "200",
            "log.index.size.max.bytes": "4096",
            "log.cleaner.enable": str(cleans).lower(),
            "log.cleaner.backoff.ms": "300",
            "log.cleaner.dedupe.buffer.size": "2097152",
            "log.retention.check.interval.ms": "400",
        }
    )
    node = Node(world, settings)
    await node.start()
    await asyncio.get_running_loop().create_future()


def run_cleaned_node(
    seed: int, death: Death | None = None, *, recording: bool = False
) -> tuple[CleanedNode, list[str]]:
    with Simulation(seed, recording=recording) as simulation:
        scenario = CleanedNode(simulation, death)
        try:
            simulation.run(scenario.main(), limit_ms=LIMIT_MS)
        except Exception as error:
            error.add_note(f"{death}")
            raise
        return scenario, simulation.trace.lines or []


def operations_of_a_cleaning(seed: int) -> range:
    """The disk operations of the broker that cleans, from the first of a pass to the last."""
    _, lines = run_cleaned_node(seed, recording=True)
    mine = [line.split(None, 1)[1] for line in lines if f" {BROKER}#2 " in line]
    operations = [line for line in mine if DATA_DIRECTORY in line]
    first = next(number for number, line in enumerate(operations) if ".cleaned" in line)
    last = next(
        number for number, line in enumerate(operations) if number > first and "rename" in line and CLEAN_END in line
    )
    return range(first, last + 1)
