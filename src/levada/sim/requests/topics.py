"""What many ask a broker for: topics, coordinators, and to take one record."""

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from levada.model.buffers import Buffer
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from levada.protocol.messages.fetch import PartitionData
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.records import build_batch
from levada.sim.requests.connections import RETRY_SECONDS, Connector
from levada.world.disk import FileRange

GROUP, TRANSACTION = 0, 1
"""Key types of FindCoordinator."""


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
        if response.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            return
        await asyncio.sleep(RETRY_SECONDS)


async def find_coordinators(connector: Connector, keys: Sequence[str], key_type: int = GROUP) -> None:
    """Wait until all have one, which also makes the topic that keeps their state."""
    while True:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))
        reply = await connector.call(request, 4)
        if all(one.error_code == ErrorCode.NONE for one in reply.coordinators):
            return
        await asyncio.sleep(RETRY_SECONDS)


def produce_request(topic: str, partition: int, value: bytes) -> ProduceRequest:
    """One record, by a producer without an id."""
    batch = build_batch([(0, None, value, ())])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
    return ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[data])


def records_of(answer: PartitionData) -> Buffer:
    """The batches in a broker's answer to a fetch."""
    assert not isinstance(answer.records, FileRange), "only brokers send files"
    return answer.records or b""
