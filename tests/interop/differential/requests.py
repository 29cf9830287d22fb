"""Short forms of the requests that several tables send."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from levada.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from levada.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.records import build_batch
from tests.interop.differential.cases import Side

NOW_MS = time.time_ns() // 1_000_000
"""One moment for both brokers, young enough for every retention."""
CREATE_TIMEOUT_MS = 10_000
LEFT_OPEN = -1

TOPIC, BROKER = 2, 4

Assignment = Sequence[tuple[int, Sequence[int]]]


def batch(*values: bytes, first_ms: int = NOW_MS, key: bytes | None = b"key", **fields: Any) -> bytes:
    """Records one millisecond apart."""
    return build_batch([(first_ms + number, key, value, ()) for number, value in enumerate(values)], **fields)


def produce(
    side: Side, topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1, topic_id: bytes | None = None
) -> ProduceRequest:
    """To one partition, by the topic's name or id as the version has it."""
    by_id = side.version >= 13
    data = TopicProduceData(
        name="" if by_id else topic,
        topic_id=(topic_id or side.topic_id(topic)) if by_id else bytes(16),
        partition_data=[PartitionProduceData(index=partition, records=records)],
    )
    return ProduceRequest(acks=acks, timeout_ms=CREATE_TIMEOUT_MS, topic_data=[data])


def new_topic(
    name: str,
    partitions: int = 1,
    replication_factor: int = 1,
    *,
    assignment: Assignment = (),
    configs: Mapping[str, str | None] | Sequence[tuple[str, str | None]] = (),
) -> CreatableTopic:
    """A topic to be created; an assignment leaves the counts open."""
    pairs = configs.items() if isinstance(configs, Mapping) else configs
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers)) for index, brokers in assignment
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in pairs],
    )


def assigned(name: str, *assignment: tuple[int, Sequence[int]]) -> CreatableTopic:
    return new_topic(name, LEFT_OPEN, LEFT_OPEN, assignment=assignment)


def create(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=CREATE_TIMEOUT_MS, validate_only=validate_only)


def metadata(*names: str | None, may_create: bool = False, operations: bool = False) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=may_create,
        include_topic_authorized_operations=operations,
    )


def describe(
    kind: int, name: str, *keys: str, with_synonyms: bool = True, with_documentation: bool = False
) -> DescribeConfigsRequest:
    """All configurations of a resource, or those of some keys."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    return DescribeConfigsRequest(
        resources=[resource], include_synonyms=with_synonyms, include_documentation=with_documentation
    )
