"""Which directory of a broker has which replica, as the brokers say."""

from levada.controller.decision import Context, ControllerDecision
from levada.controller.elections import moved
from levada.metadata.image import Image
from levada.metadata.records import PartitionChangeRecord
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.assign_replicas_to_dirs import (
    AssignedDirectory,
    AssignedPartition,
    AssignedTopic,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)


def assign(
    image: Image, request: AssignReplicasToDirsRequest, context: Context
) -> ControllerDecision[AssignReplicasToDirsResponse]:
    broker = image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return ControllerDecision(AssignReplicasToDirsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, directories=[]))
    records: list[PartitionChangeRecord] = []
    directories = []
    for directory in request.directories:
        topics = []
        for topic in directory.topics:
            partitions = []
            for one in topic.partitions:
                code, record = _assign(image, request.broker_id, topic.topic_id, one.partition_index, directory.id)
                partitions.append(AssignedPartition(partition_index=one.partition_index, error_code=code))
                records += [] if record is None else [record]
            topics.append(AssignedTopic(topic_id=topic.topic_id, partitions=partitions))
        directories.append(AssignedDirectory(id=directory.id, topics=topics))
    return ControllerDecision(AssignReplicasToDirsResponse(directories=directories), records)


def _assign(
    image: Image, broker_id: int, topic_id: bytes, index: int, directory_id: bytes
) -> tuple[ErrorCode, PartitionChangeRecord | None]:
    topic = image.topic_by_id(topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID, None
    if not 0 <= index < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
    partition = topic.partitions[index]
    if broker_id not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER, None
    return ErrorCode.NONE, moved(image, topic, partition, broker_id, directory_id)
