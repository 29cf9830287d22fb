"""A client that creates, deletes, grows and configures topics, and may write to them, as fast as it is answered."""

import asyncio
import random
from typing import Any

from levada.metadata.image import TOPIC
from levada.model.error_codes import ErrorCode
from levada.protocol.declare import NO_UUID
from levada.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from levada.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from levada.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from levada.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from levada.sim.checkers.topic_history import Operation, TopicHistory, configure, create, delete, grow
from levada.sim.requests.connections import CALL_SECONDS, RETRY_SECONDS, Caller
from levada.sim.requests.topics import produce_request

MAX_PARTITIONS = 4
SET, DELETE = 0, 1
KEYS = ("retention.ms", "segment.ms", "max.message.bytes")


class TopicAdmin:
    """One client with topics of its own."""

    def __init__(
        self,
        caller: Caller,
        chance: random.Random,
        names: list[str],
        *,
        call_seconds: float = CALL_SECONDS,
        writes: bool = True,
    ) -> None:
        self.histories = [TopicHistory(name) for name in names]
        self.acknowledged = 0
        self._caller = caller
        self._call_seconds = call_seconds
        self._writes = writes
        self._chance = chance
        self._generations = 0
        self._values = 0

    async def act(self) -> None:
        """Do one thing to a topic whose state is known."""
        histories = [history for history in self.histories if not history.is_unsure]
        if not histories:
            await asyncio.sleep(RETRY_SECONDS)
            return
        history = self._chance.choice(histories)
        if history.topic is None:
            await self._create(history)
            return
        actions = (self._produce, self._grow, self._configure, self._delete, self._create)
        weights = (6 if self._writes else 0, 2, 3, 2, 1)
        await self._chance.choices(actions, weights)[0](history)

    async def _create(self, history: TopicHistory) -> None:
        self._generations += 1
        partitions = self._chance.randint(1, MAX_PARTITIONS)
        configs = {key: self._config_value() for key in KEYS if self._chance.random() < 0.3}
        topic = CreatableTopic(
            name=history.name,
            num_partitions=partitions,
            replication_factor=1,
            assignments=[],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        reply = await self._caller.ask(CreateTopicsRequest(topics=[topic]), 7, self._call_seconds)
        result = None if reply is None else reply.topics[0]
        topic_id = None if result is None or result.error_code else result.topic_id
        self._learn(history, create(self._generations, partitions, configs), result, topic_id)

    async def _delete(self, history: TopicHistory) -> None:
        state = DeleteTopicState(name=history.name, topic_id=NO_UUID)
        reply = await self._caller.ask(DeleteTopicsRequest(topics=[state], timeout_ms=1_000), 6, self._call_seconds)
        self._learn(history, delete, None if reply is None else reply.responses[0])

    async def _grow(self, history: TopicHistory) -> None:
        count = self._chance.randint(1, MAX_PARTITIONS)
        topic = CreatePartitionsTopic(name=history.name, count=count, assignments=None)
        reply = await self._caller.ask(
            CreatePartitionsRequest(topics=[topic], timeout_ms=1_000, validate_only=False), 3, self._call_seconds
        )
        self._learn(history, grow(count), None if reply is None else reply.results[0])

    async def _configure(self, history: TopicHistory) -> None:
        key = self._chance.choice(KEYS)
        value = self._config_value() if self._chance.random() < 0.7 else None
        config = AlterableConfig(name=key, config_operation=DELETE if value is None else SET, value=value)
        resource = AlterConfigsResource(resource_type=TOPIC, resource_name=history.name, configs=[config])
        reply = await self._caller.ask(
            IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1, self._call_seconds
        )
        self._learn(history, configure(key, value), None if reply is None else reply.responses[0])

    async def _produce(self, history: TopicHistory) -> None:
        topic = history.topic
        assert topic is not None
        partition = self._chance.randrange(topic.partitions)
        self._values += 1
        value = f"{history.name} {topic.generation} {self._values}".encode()
        history.send(partition, value, is_acknowledged=False)
        reply = await self._caller.ask(produce_request(history.name, partition, value), 9)
        if reply is not None and reply.responses[0].partition_responses[0].error_code == ErrorCode.NONE:
            history.send(partition, value, is_acknowledged=True)

    def _learn(self, history: TopicHistory, operation: Operation, result: Any, topic_id: bytes | None = None) -> None:
        history.learn(operation, None if result is None else result.error_code, topic_id)
        self.acknowledged += result is not None and result.error_code == ErrorCode.NONE

    def _config_value(self) -> str:
        return str(self._chance.randint(10_000_000, 20_000_000))
