"""DescribeTopicPartitions v0. Topics page by page, with eligible leaders (KIP-966)."""

from levada.broker.authorized import ALL_TOPIC_OPERATIONS
from levada.broker.route import Request
from levada.metadata.image import Image, PartitionState, TopicState
from levada.metadata.records import NO_LEADER
from levada.model.error_codes import ErrorCode
from levada.model.errors import ApiError
from levada.model.topics import INTERNAL_TOPICS, check_topic_name
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.declare import NO_UUID
from levada.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
)

API = ApiKey.DESCRIBE_TOPIC_PARTITIONS
VERSIONS = stable_versions(API)


def handle(message: DescribeTopicPartitionsRequest, request: Request) -> DescribeTopicPartitionsResponse:
    image = request.broker.image
    asked = {topic.name for topic in message.topics}
    cursor = message.cursor
    if cursor is not None and (cursor.partition_index < 0 or (asked and cursor.topic_name not in asked)):
        return _refuse_all(message)
    names = sorted(asked or image.topics)
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
    most = request.broker.config["max.request.partition.size.limit"]
    room = max(min(message.response_partition_limit, most), 1)
    response = DescribeTopicPartitionsResponse(topics=[])
    for name in names:
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        if room == 0 or len(response.topics) == most:
            # Topics that are not there take no room, and there may be very many of them.
            response.next_cursor = ResponseCursor(topic_name=name, partition_index=0)
            break
        topic = image.topics.get(name)
        if topic is None:
            response.topics.append(_unknown(name))
            continue
        page = topic.partitions[first : first + room]
        response.topics.append(_describe(topic, page, image))
        room -= len(page)
        if first + len(page) < len(topic.partitions):
            response.next_cursor = ResponseCursor(topic_name=name, partition_index=first + len(page))
            break
    return response


def _describe(
    topic: TopicState, page: tuple[PartitionState, ...], image: Image
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(partition, image) for partition in page],
        topic_authorized_operations=ALL_TOPIC_OPERATIONS,
    )


def _partition(partition: PartitionState, image: Image) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if partition.leader == NO_LEADER else ErrorCode.NONE,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.eligible),
        last_known_elr=list(partition.last_known_eligible),
        offline_replicas=image.offline_replicas(partition),
    )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_topic_name(name)
    except ApiError as error:
        code = error.code
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        topic_id=NO_UUID,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[],
        topic_authorized_operations=ALL_TOPIC_OPERATIONS,
    )


def _refuse_all(message: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """For a cursor that points to nothing asked for; the response has no place for an error of the whole request."""
    topics = [
        DescribeTopicPartitionsResponseTopic(
            error_code=ErrorCode.INVALID_REQUEST, name=topic.name, topic_id=NO_UUID, partitions=[]
        )
        for topic in message.topics
    ]
    return DescribeTopicPartitionsResponse(topics=topics)
