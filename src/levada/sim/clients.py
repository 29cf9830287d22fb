"""Clients of a simulated cluster, on raw requests: an idempotent producer that retries, and a reader."""

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType

from levada.model.errors import ErrorCode
from levada.net.channel import Channel, ChannelClosed
from levada.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.records import build_batch, iter_batches
from levada.sim.checkers import CheckFailed, PartitionHistory
from levada.world.world import World

RETRY_SECONDS = 0.05
CALL_SECONDS = 2.0

NONE, ALREADY_THERE = ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS
LOST_STATE = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH)


class Connector:
    """Keeps one channel to the broker, and opens a new one after each failure."""

    def __init__(self, world: World, host: str, port: int) -> None:
        self._world = world
        self._host = host
        self._port = port
        self._channel: Channel | None = None

    async def call(self, request: object, version: int) -> object:
        """Ask until there is an answer; what has no answer may have been carried out."""
        while True:
            try:
                if self._channel is None:
                    connecting = Channel.connect(self._world.net, self._host, self._port)
                    self._channel = await asyncio.wait_for(connecting, CALL_SECONDS)
                return await asyncio.wait_for(self._channel.call(request, version), CALL_SECONDS)
            except (OSError, ChannelClosed, TimeoutError):
                self.close()
                await asyncio.sleep(RETRY_SECONDS)

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None


async def create_topic(
    connector: Connector, name: str, partitions: int, configs: Mapping[str, str] = MappingProxyType({})
) -> None:
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        assignments=[],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    while True:
        response = await connector.call(CreateTopicsRequest(topics=[topic]), 7)
        if response.topics[0].error_code in (NONE, ALREADY_THERE):  # type: ignore[attr-defined]
            return
        await asyncio.sleep(RETRY_SECONDS)


class IdempotentProducer:
    """Sends one batch at a time to a partition and repeats it, with its sequence, until it is acknowledged."""

    def __init__(self, connector: Connector, clock_ms: Callable[[], int], topic: str, partition: int) -> None:
        self._connector = connector
        self._clock_ms = clock_ms
        self._topic = topic
        self._partition = partition
        self._next_sequence = 0
        self.producer_id = -1
        self.producer_ids: list[int] = []

    async def send(self, values: list[bytes], history: PartitionHistory) -> None:
        for value in values:
            history.send(value)
        while True:
            if self.producer_id < 0:
                await self._begin()
            if self.producer_id < 0:
                # Without an id it would be no idempotent producer.
                await asyncio.sleep(RETRY_SECONDS)
                continue
            code, base_offset = await self._produce(values)
            if code == NONE:
                for number, value in enumerate(values):
                    history.acknowledge(base_offset + number, value)
                self._next_sequence += len(values)
                return
            if code in LOST_STATE:
                # The broker lost its end and our last sequences with it: what we repeat was lost as well.
                self.producer_id = -1
            await asyncio.sleep(RETRY_SECONDS)

    async def _begin(self) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        response = await self._connector.call(request, 4)
        if response.error_code == NONE:  # type: ignore[attr-defined]
            self.producer_id = response.producer_id  # type: ignore[attr-defined]
            self.producer_ids.append(self.producer_id)
            self._next_sequence = 0

    async def _produce(self, values: list[bytes]) -> tuple[int, int]:
        batch = build_batch(
            [(self._clock_ms(), None, value, ()) for value in values],
            producer_id=self.producer_id,
            producer_epoch=0,
            base_sequence=self._next_sequence,
        )
        data = PartitionProduceData(index=self._partition, records=batch)
        topic = TopicProduceData(name=self._topic, partition_data=[data])
        response = await self._connector.call(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic]), 9)
        partition = response.responses[0].partition_responses[0]  # type: ignore[attr-defined]
        return partition.error_code, partition.base_offset


async def read_log(connector: Connector, topic: str, partition: int) -> list[tuple[int, bytes]]:
    """Every record of a partition, in order."""
    log: list[tuple[int, bytes]] = []
    next_offset = 0
    while True:
        wanted = FetchPartition(partition=partition, fetch_offset=next_offset, partition_max_bytes=4_096)
        topics = [FetchTopic(topic=topic, partitions=[wanted])]
        response = await connector.call(FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics), 12)
        found = response.responses[0].partitions[0]  # type: ignore[attr-defined]
        assert found.error_code == NONE, ErrorCode(found.error_code)
        before = next_offset
        for batch in iter_batches(found.records):
            batch.validate()
            new = [record for record in batch.records() if record.offset >= next_offset]
            log += [(record.offset, record.value or b"") for record in new]
            next_offset = max(next_offset, batch.next_offset)
        if next_offset >= found.high_watermark:
            return log
        if next_offset == before:
            raise CheckFailed(f"a fetch at {before} brings nothing though the log ends at {found.high_watermark}")
