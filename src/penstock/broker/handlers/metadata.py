"""Metadata v0-13. v1 null asks for all topics, v4 may forbid creation, v9 flexible, v10 topic ids (KIP-516)."""

from penstock.broker.broker import Broker
from penstock.broker.route import Request
from penstock.broker.topics import Topic
from penstock.model.errors import ErrorCode, KafkaError, UnknownTopicOrPartition
from penstock.model.topics import INTERNAL_TOPICS, check_topic_name
from penstock.protocol.api import ApiKey, stable_versions
from penstock.protocol.declare import NO_UUID
from penstock.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

API = ApiKey.METADATA
VERSIONS = stable_versions(API)


def handle(message: MetadataRequest, request: Request) -> MetadataResponse:
    broker = request.broker
    settings = broker.settings
    wants_all = message.topics is None or (request.version == 0 and not message.topics)
    if wants_all:
        topics = [_describe(topic, broker) for topic in broker.topics.all()]
    else:
        may_create = message.allow_auto_topic_creation and settings.auto_create_topics
        topics = [_answer(wanted, broker, may_create) for wanted in message.topics or ()]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=settings.node_id, host=settings.host, port=settings.port)],
        cluster_id=settings.cluster_id,
        controller_id=settings.node_id,
        topics=topics,
    )


def _answer(wanted: MetadataRequestTopic, broker: Broker, may_create: bool) -> MetadataResponseTopic:
    try:
        return _describe(_find_or_create(wanted, broker, may_create), broker)
    except KafkaError as error:
        return MetadataResponseTopic(error_code=error.code, name=wanted.name, topic_id=wanted.topic_id, partitions=[])


def _find_or_create(wanted: MetadataRequestTopic, broker: Broker, may_create: bool) -> Topic:
    if wanted.topic_id != NO_UUID or wanted.name is None:
        return broker.topic("", wanted.topic_id)
    topic = broker.topics.by_name(wanted.name)
    if topic is not None:
        return topic
    check_topic_name(wanted.name)
    if not may_create or wanted.name in INTERNAL_TOPICS:
        raise UnknownTopicOrPartition("this server does not host this topic-partition")
    return broker.topics.create(wanted.name, broker.settings.partitions_per_topic)


def _describe(topic: Topic, broker: Broker) -> MetadataResponseTopic:
    node_id = broker.settings.node_id
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            MetadataResponsePartition(
                partition_index=partition.index,
                leader_id=node_id,
                leader_epoch=partition.leader_epoch,
                replica_nodes=[node_id],
                isr_nodes=[node_id],
            )
            for partition in topic.partitions
        ],
    )
