"""Produce v3-13. v7 zstd (KIP-110), v8 record errors (KIP-467), v9 flexible, v13 topic ids (KIP-516)."""

from penstock.broker.route import Request
from penstock.model.errors import InvalidRecord, InvalidRequiredAcks, KafkaError
from penstock.net.connection import CloseConnection
from penstock.protocol.api import ApiKey, stable_versions
from penstock.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

API = ApiKey.PRODUCE
VERSIONS = stable_versions(API)
ADVERTISED_VERSIONS = range(VERSIONS.stop)
"""librdkafka takes a minimum above 0 for a broker that cannot compress (KAFKA-18659); 0-2 are refused all the same."""

NO_REPLY, LEADER, ALL = 0, 1, -1


def handle(message: ProduceRequest, request: Request) -> ProduceResponse | None:
    # With one replica, what the leader has appended every in-sync replica has: acks=all waits for nobody.
    topics = [_append_topic(message.acks, topic, request) for topic in message.topic_data]
    if message.acks != NO_REPLY:
        return ProduceResponse(responses=topics)
    for topic in topics:
        for partition in topic.partition_responses:
            if partition.error_code:
                raise CloseConnection(f"produce without acks failed: {partition.error_message}")
    return None


def _append_topic(acks: int, topic: TopicProduceData, request: Request) -> TopicProduceResponse:
    return TopicProduceResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_responses=[_append(acks, topic, data, request) for data in topic.partition_data],
    )


def _append(
    acks: int, topic: TopicProduceData, data: PartitionProduceData, request: Request
) -> PartitionProduceResponse:
    broker = request.broker
    try:
        if acks not in (NO_REPLY, LEADER, ALL):
            raise InvalidRequiredAcks(f"acks must be -1, 0 or 1, not {acks}")
        if data.records is None:
            raise InvalidRecord("a produce request without records")
        partition = broker.partition(topic.name, topic.topic_id, data.index)
        appended = partition.append(
            data.records,
            max_bytes=broker.settings.max_message_bytes,
            allows_zstd=request.version >= 7,
        )
    except KafkaError as error:
        return PartitionProduceResponse(
            index=data.index, error_code=error.code, error_message=str(error), base_offset=-1
        )
    return PartitionProduceResponse(
        index=data.index, base_offset=appended.base_offset, log_start_offset=partition.log.start_offset
    )
