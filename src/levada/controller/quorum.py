"""Who keeps the cluster's metadata, as tools for Kafka's quorum of controllers ask it."""

from levada.controller.decision import Context, ControllerDecision
from levada.metadata.image import Image
from levada.model.error_codes import ErrorCode
from levada.model.topics import CLUSTER_METADATA
from levada.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)

METADATA_PARTITION = 0
NAMES_VOTERS_SINCE = 2


def describe(
    image: Image, request: DescribeQuorumRequest, context: Context
) -> ControllerDecision[DescribeQuorumResponse]:
    """The metadata log has no replicas that vote: the active controller writes it, and every other broker reads it."""
    topics = [
        ResponseTopicData(
            topic_name=topic.topic_name,
            partitions=[_partition(image, topic.topic_name, one.partition_index, context) for one in topic.partitions],
        )
        for topic in request.topics
    ]
    return ControllerDecision(DescribeQuorumResponse(topics=topics, nodes=_nodes(image, context)))


def _partition(image: Image, topic: str, index: int, context: Context) -> ResponsePartitionData:
    if (topic, index) != (CLUSTER_METADATA, METADATA_PARTITION):
        return ResponsePartitionData(
            partition_index=index,
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            leader_id=-1,
            leader_epoch=-1,
            high_watermark=-1,
            current_voters=[],
            observers=[],
        )
    own_id, sessions = context.defaults.node_id, context.liveness.sessions
    end_offset = image.offset + 1
    observers = [
        ReplicaState(replica_id=broker_id, log_end_offset=sessions.offset_of(broker_id) + 1)
        for broker_id in sorted(image.brokers)
        if broker_id != own_id
    ]
    return ResponsePartitionData(
        partition_index=index,
        leader_id=own_id,
        leader_epoch=context.controller_epoch,
        high_watermark=end_offset,
        current_voters=[
            ReplicaState(
                replica_id=own_id,
                log_end_offset=end_offset,
                last_fetch_timestamp=context.now_ms,
                last_caught_up_timestamp=context.now_ms,
            )
        ],
        observers=observers,
    )


def _nodes(image: Image, context: Context) -> list[Node]:
    if context.version < NAMES_VOTERS_SINCE:
        return []
    controller = image.brokers.get(context.defaults.node_id)
    if controller is None:
        return []
    listeners = [Listener(name=one.name, host=one.host, port=one.port) for one in controller.endpoints]
    return [Node(node_id=controller.broker_id, listeners=listeners)]
