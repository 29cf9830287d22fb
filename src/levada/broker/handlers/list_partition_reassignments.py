"""ListPartitionReassignments v0. The moves that are under way (KIP-455)."""

from levada.broker.route import Request
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

API = ApiKey.LIST_PARTITION_REASSIGNMENTS
VERSIONS = stable_versions(API)


def handle(message: ListPartitionReassignmentsRequest, request: Request) -> ListPartitionReassignmentsResponse:
    image = request.broker.image
    asked = None if message.topics is None else {one.name: set(one.partition_indexes) for one in message.topics}
    topics = []
    for name in image.topics if asked is None else asked:
        ongoing = [
            OngoingPartitionReassignment(
                partition_index=one.index,
                replicas=list(one.replicas),
                adding_replicas=list(one.adding),
                removing_replicas=list(one.removing),
            )
            for one in (image.topics[name].partitions if name in image.topics else ())
            if (one.adding or one.removing) and (asked is None or one.index in asked[name])
        ]
        if ongoing:
            topics.append(OngoingTopicReassignment(name=name, partitions=ongoing))
    return ListPartitionReassignmentsResponse(error_message=None, topics=topics)
