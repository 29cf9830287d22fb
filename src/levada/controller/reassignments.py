"""Partitions that an operator assigns to other brokers."""

from collections.abc import Sequence

from levada.controller.decision import Context, ControllerDecision
from levada.metadata.image import Image, PartitionState, TopicState
from levada.metadata.records import NO_CHANGE, NO_LEADER, PartitionChangeRecord
from levada.model.error_codes import ErrorCode
from levada.model.errors import (
    ApiError,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    NoReassignmentInProgress,
    UnknownTopicOrPartition,
)
from levada.model.topics import MAX_NAME_LENGTH
from levada.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def alter(
    image: Image, request: AlterPartitionReassignmentsRequest, context: Context
) -> ControllerDecision[AlterPartitionReassignmentsResponse]:
    """What only takes replicas away, or changes their order, is complete at once; no broker makes a copy yet."""
    if not request.topics:
        return ControllerDecision(AlterPartitionReassignmentsResponse(error_message="", responses=[]))
    may_resize = request.allow_replication_factor_change
    responses, records = [], []
    for topic in request.topics:
        results = []
        for target in topic.partitions:
            code, text = ErrorCode.NONE, None
            try:
                records += _reassign(image, topic.name, target, may_resize=may_resize)
            except ApiError as error:
                code, text = error.code, str(error) or None
            results.append(
                ReassignablePartitionResponse(
                    partition_index=target.partition_index, error_code=code, error_message=text
                )
            )
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=results))
    reply = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_resize, error_message=None, responses=responses
    )
    return ControllerDecision(reply, records)


def _reassign(
    image: Image, name: str, target: ReassignablePartition, *, may_resize: bool
) -> list[PartitionChangeRecord]:
    topic = image.topics.get(name)
    if topic is None:
        # It may be too long for any topic, and is quoted once for every partition.
        raise UnknownTopicOrPartition(f"Unable to find a topic named {name[:MAX_NAME_LENGTH]}.")
    if not 0 <= target.partition_index < len(topic.partitions):
        raise UnknownTopicOrPartition(f"Unable to find partition {name}:{target.partition_index}.")
    if target.replicas is None:
        raise NoReassignmentInProgress()
    partition = topic.partitions[target.partition_index]
    _check(image, partition, target.replicas, may_resize=may_resize)
    if tuple(target.replicas) == partition.replicas:
        return []
    return [_change(image, topic, partition, target.replicas)]


def _check(image: Image, partition: PartitionState, replicas: Sequence[int], *, may_resize: bool) -> None:
    if not replicas:
        raise InvalidReplicaAssignment("The manual partition assignment includes an empty replica list.")
    for broker in sorted(replicas):
        if broker not in image.brokers:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes broker {broker}, but no such broker is registered."
            )
        if replicas.count(broker) > 1:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes the broker {broker} more than once."
            )
    if not may_resize and len(replicas) != len(partition.replicas):
        raise InvalidReplicationFactor(
            f"The replication factor is changed from {len(partition.replicas)} to {len(replicas)}"
        )
    new = [broker for broker in replicas if broker not in partition.replicas]
    if new:
        raise InvalidReplicaAssignment(
            f"Broker {new[0]} has no copy of the partition, and would not be given one: this release does not copy"
            " partitions between brokers."
        )
    if set(partition.isr).isdisjoint(replicas):
        raise InvalidReplicaAssignment("None of the brokers in the manual partition assignment is in sync.")


def _change(
    image: Image, topic: TopicState, partition: PartitionState, replicas: Sequence[int]
) -> PartitionChangeRecord:
    isr = [broker for broker in partition.isr if broker in replicas]
    leader = NO_CHANGE
    if len(replicas) < len(partition.replicas):
        # Who stays leader begins a new epoch too: a replica that was taken away must not go on as a follower.
        candidates = [one for one in (partition.leader, *replicas) if one in isr]
        leader = next((one for one in candidates if image.is_online(partition, one)), NO_LEADER)
    directories = dict(zip(partition.replicas, partition.directories))
    return PartitionChangeRecord(
        partition_id=partition.index,
        topic_id=topic.topic_id,
        replicas=list(replicas),
        isr=isr if tuple(isr) != partition.isr else None,
        leader=leader,
        directories=[directories[broker] for broker in replicas] if directories else None,
    )
