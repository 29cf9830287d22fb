"""A client that creates, deletes, grows and configures topics as fast as it is answered, and what must hold after."""

import asyncio
import random
from typing import Any

from levada.metadata.image import TOPIC
from levada.model.errors import ErrorCode
from levada.net.channel import Channel, ChannelClosed
from levada.protocol.declare import NO_UUID
from levada.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from levada.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from levada.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from levada.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from levada.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from levada.protocol.messages.metadata import MetadataRequest
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.records import build_batch
from levada.sim.checkers import CheckFailed
from levada.sim.clients import CALL_SECONDS, RETRY_SECONDS, Connector, read_log
from levada.sim.topic_ledger import Operation, Served, TopicLedger, configure, create, delete, grow
from levada.world.world import World

MAX_PARTITIONS = 4
DYNAMIC_TOPIC_CONFIG = 1
SET, DELETE = 0, 1
KEYS = ("retention.ms", "segment.ms", "max.message.bytes")


class Caller:
    """Asks once: whoever gets no answer does not know whether he was heard."""

    def __init__(self, world: World, host: str, port: int) -> None:
        self._world = world
        self._host = host
        self._port = port
        self._channel: Channel | None = None

    async def ask(self, request: Any, version: int, seconds: float = CALL_SECONDS) -> Any:
        """The answer, or None; waits for the broker to be there."""
        while self._channel is None:
            try:
                connecting = Channel.connect(self._world.net, self._host, self._port)
                self._channel = await asyncio.wait_for(connecting, CALL_SECONDS)
            except (OSError, TimeoutError):
                await asyncio.sleep(RETRY_SECONDS)
        try:
            return await asyncio.wait_for(self._channel.call(request, version), seconds)
        except (OSError, ChannelClosed, TimeoutError):
            self.close()
            return None

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None


class Storm:
    """One client with topics of its own."""

    def __init__(self, caller: Caller, chance: random.Random, names: list[str]) -> None:
        self.ledgers = [TopicLedger(name) for name in names]
        self.acknowledged = 0
        self._caller = caller
        self._chance = chance
        self._generations = 0
        self._values = 0

    async def act(self) -> None:
        """Do one thing to a topic whose state is known."""
        ledgers = [ledger for ledger in self.ledgers if not ledger.is_unsure]
        if not ledgers:
            await asyncio.sleep(RETRY_SECONDS)
            return
        ledger = self._chance.choice(ledgers)
        if ledger.topic is None:
            await self._create(ledger)
            return
        actions = (self._produce, self._grow, self._configure, self._delete, self._create)
        await self._chance.choices(actions, (6, 2, 3, 2, 1))[0](ledger)

    async def _create(self, ledger: TopicLedger) -> None:
        self._generations += 1
        partitions = self._chance.randint(1, MAX_PARTITIONS)
        configs = {key: self._config_value() for key in KEYS if self._chance.random() < 0.3}
        topic = CreatableTopic(
            name=ledger.name,
            num_partitions=partitions,
            replication_factor=1,
            assignments=[],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        reply = await self._caller.ask(CreateTopicsRequest(topics=[topic]), 7)
        result = None if reply is None else reply.topics[0]
        topic_id = None if result is None or result.error_code else result.topic_id
        self._learn(ledger, create(self._generations, partitions, configs), result, topic_id)

    async def _delete(self, ledger: TopicLedger) -> None:
        state = DeleteTopicState(name=ledger.name, topic_id=NO_UUID)
        reply = await self._caller.ask(DeleteTopicsRequest(topics=[state], timeout_ms=1_000), 6)
        self._learn(ledger, delete, None if reply is None else reply.responses[0])

    async def _grow(self, ledger: TopicLedger) -> None:
        count = self._chance.randint(1, MAX_PARTITIONS)
        topic = CreatePartitionsTopic(name=ledger.name, count=count, assignments=None)
        reply = await self._caller.ask(
            CreatePartitionsRequest(topics=[topic], timeout_ms=1_000, validate_only=False), 3
        )
        self._learn(ledger, grow(count), None if reply is None else reply.results[0])

    async def _configure(self, ledger: TopicLedger) -> None:
        key = self._chance.choice(KEYS)
        value = self._config_value() if self._chance.random() < 0.7 else None
        config = AlterableConfig(name=key, config_operation=DELETE if value is None else SET, value=value)
        resource = AlterConfigsResource(resource_type=TOPIC, resource_name=ledger.name, configs=[config])
        reply = await self._caller.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
        self._learn(ledger, configure(key, value), None if reply is None else reply.responses[0])

    async def _produce(self, ledger: TopicLedger) -> None:
        topic = ledger.topic
        assert topic is not None
        partition = self._chance.randrange(topic.partitions)
        self._values += 1
        value = f"{ledger.name} {topic.generation} {self._values}".encode()
        ledger.send(partition, value, is_acknowledged=False)
        if await produce(self._caller, ledger.name, partition, value) == ErrorCode.NONE:
            ledger.send(partition, value, is_acknowledged=True)

    def _learn(self, ledger: TopicLedger, operation: Operation, result: Any, topic_id: bytes | None = None) -> None:
        ledger.learn(operation, None if result is None else result.error_code, topic_id)
        self.acknowledged += result is not None and result.error_code == ErrorCode.NONE

    def _config_value(self) -> str:
        return str(self._chance.randint(10_000_000, 20_000_000))


async def produce(caller: Caller, topic: str, partition: int, value: bytes) -> int | None:
    """The code a record is answered with, None for no answer."""
    batch = build_batch([(0, None, value, ())])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
    reply = await caller.ask(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[data]), 9)
    return None if reply is None else reply.responses[0].partition_responses[0].error_code


async def check_storms(connector: Connector, storms: list[Storm]) -> dict[str, Served]:
    """Compare a broker that was started anew with what all its clients know; returns the topics it serves."""
    served = await served_topics(connector)
    ledgers = {ledger.name: ledger for storm in storms for ledger in storm.ledgers}
    strangers = sorted(set(served) - set(ledgers))
    if strangers:
        raise CheckFailed(f"nobody created {strangers}")
    for name, ledger in ledgers.items():
        ledger.settle(served.get(name))
    for name, topic in served.items():
        for partition in range(topic.partitions):
            await _check_served(connector, ledgers[name], partition)
    return served


async def served_topics(connector: Connector) -> dict[str, Served]:
    reply: Any = await connector.call(MetadataRequest(topics=None), 12)
    topics = {}
    for topic in reply.topics:
        if any(partition.error_code for partition in topic.partitions):
            raise CheckFailed(f"{topic.name} has partitions without a leader")
        if [partition.partition_index for partition in topic.partitions] != list(range(len(topic.partitions))):
            raise CheckFailed(f"{topic.name} has partitions {topic.partitions}")
        topics[topic.name] = Served(topic.topic_id, len(topic.partitions), await _configs(connector, topic.name))
    return topics


async def _configs(connector: Connector, topic: str) -> tuple[tuple[str, str], ...]:
    resource = DescribeConfigsResource(resource_type=TOPIC, resource_name=topic, configuration_keys=None)
    reply: Any = await connector.call(DescribeConfigsRequest(resources=[resource]), 4)
    entries = reply.results[0].configs
    return tuple(sorted((one.name, one.value) for one in entries if one.config_source == DYNAMIC_TOPIC_CONFIG))


async def _check_served(connector: Connector, ledger: TopicLedger, partition: int) -> None:
    """Every partition of every topic takes records and gives them back."""
    log = await read_log(connector, ledger.name, partition)
    ledger.check_records(partition, [value for _, value in log])
    value = f"checked {ledger.name} {partition} {len(log)}".encode()
    ledger.send(partition, value, is_acknowledged=False)
    batch = build_batch([(0, None, value, ())])
    data = TopicProduceData(name=ledger.name, partition_data=[PartitionProduceData(index=partition, records=batch)])
    reply: Any = await connector.call(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[data]), 9)
    code = reply.responses[0].partition_responses[0].error_code
    if code != ErrorCode.NONE:
        raise CheckFailed(f"{ledger.name}-{partition} takes no records: {ErrorCode(code).name}")
    ledger.send(partition, value, is_acknowledged=True)
    after = await read_log(connector, ledger.name, partition)
    if after != [*log, (len(log), value)]:
        raise CheckFailed(f"{ledger.name}-{partition} does not give back what it took: {after[len(log) :]}")
