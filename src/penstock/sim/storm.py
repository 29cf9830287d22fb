"""Clients that change topics without pause, and what they may expect to find after a crash."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.model.errors import ErrorCode
from penstock.net.channel import Channel, ChannelClosed
from penstock.protocol.declare import NO_UUID
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.protocol.messages.metadata import MetadataRequest
from penstock.sim.checkers import CheckFailed

CONFIG = "retention.ms"
TOPIC_TYPE, SET = 2, 0
OWN_CONFIG = 1
UNDECIDED = (ErrorCode.NOT_CONTROLLER, ErrorCode.KAFKA_STORAGE_ERROR)


@dataclass(frozen=True, slots=True)
class Topic:
    partitions: int
    retention_ms: str | None = None


State = Topic | None
"""A topic as it is, None where there is none."""


@dataclass(slots=True)
class Known:
    """What a client knows of its topics; an operation without an answer leaves two possibilities."""

    topics: dict[str, State]
    doubtful: dict[str, State] = field(default_factory=dict)
    acknowledged: int = 0

    def settle(self, shown: dict[str, Topic]) -> None:
        """Compare with what the broker shows now, and go on from that."""
        for name, topic in self.topics.items():
            allowed = [topic, *([self.doubtful[name]] if name in self.doubtful else [])]
            if shown.get(name) not in allowed:
                raise CheckFailed(f"{name} is {shown.get(name)} and should be one of {allowed}")
        self.topics = {name: shown.get(name) for name in self.topics}
        self.doubtful.clear()


class Storm:
    """One client that changes its own topics, one operation at a time, until the broker dies."""

    def __init__(self, chance: random.Random, known: Known) -> None:
        self._chance = chance
        self._known = known

    async def run(self, channel: Channel) -> None:
        try:
            while True:
                name = self._chance.choice(list(self._known.topics))
                await self._change(channel, name)
        except ChannelClosed:
            pass
        finally:
            channel.close()

    async def _change(self, channel: Channel, name: str) -> None:
        before = self._known.topics[name]
        request, after, code_of = self._choose(name, before)
        self._known.doubtful[name] = after
        code = code_of(await channel.call(request, request.versions[-1]))
        if code in UNDECIDED:
            # It may be in the log all the same; this client does not go on before it knows.
            raise ChannelClosed(f"{name}: {ErrorCode(code).name}")
        if code != ErrorCode.NONE:
            raise CheckFailed(f"{name} from {before} to {after}: {ErrorCode(code).name}")
        self._known.topics[name] = after
        del self._known.doubtful[name]
        self._known.acknowledged += 1

    def _choose(self, name: str, topic: State) -> tuple[Any, State, Callable[[Any], int]]:
        if topic is None:
            count = self._chance.randint(1, 4)
            wanted = CreatableTopic(name=name, num_partitions=count, replication_factor=1, assignments=[], configs=[])
            return CreateTopicsRequest(topics=[wanted]), Topic(count), lambda reply: reply.topics[0].error_code
        match self._chance.randrange(3):
            case 0:
                gone = DeleteTopicState(name=name, topic_id=NO_UUID)
                request: Any = DeleteTopicsRequest(topics=[gone], timeout_ms=1_000)
                return request, None, lambda reply: reply.responses[0].error_code
            case 1:
                count = topic.partitions + self._chance.randint(1, 3)
                more = CreatePartitionsTopic(name=name, count=count, assignments=None)
                request = CreatePartitionsRequest(topics=[more], timeout_ms=1_000, validate_only=False)
                return request, replace(topic, partitions=count), lambda reply: reply.results[0].error_code
        value = str(self._chance.randint(1_000_000, 9_000_000))
        change = AlterableConfig(name=CONFIG, config_operation=SET, value=value)
        resource = AlterConfigsResource(resource_type=TOPIC_TYPE, resource_name=name, configs=[change])
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        return request, replace(topic, retention_ms=value), lambda reply: reply.responses[0].error_code


async def described(channel: Channel) -> dict[str, Topic]:
    """Every topic that the broker shows."""
    response = await channel.call(MetadataRequest(topics=None), 13)
    found: dict[str, Topic] = {}
    for topic in response.topics:
        if [one.partition_index for one in topic.partitions] != list(range(len(topic.partitions))):
            raise CheckFailed(f"{topic.name} has partitions {topic.partitions}")
        resource = DescribeConfigsResource(
            resource_type=TOPIC_TYPE, resource_name=topic.name, configuration_keys=[CONFIG]
        )
        (entry,) = (await channel.call(DescribeConfigsRequest(resources=[resource]), 4)).results[0].configs
        is_own = entry.config_source == OWN_CONFIG
        found[topic.name] = Topic(len(topic.partitions), entry.value if is_own else None)
    return found
