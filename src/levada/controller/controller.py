"""Every request that changes the cluster, and the function that decides it."""

from collections.abc import Callable
from typing import Any, TypeVar

from levada.controller import brokers, configs, features, quorum, reassignments, replica_directories, topics
from levada.controller.adoption import AdoptRequest, SkipProducerIdsRequest, adopt, skip_producer_ids
from levada.controller.decision import Context, ControllerDecision
from levada.metadata.image import Image
from levada.protocol.declare import AnsweredBy
from levada.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from levada.protocol.messages.alter_configs import AlterConfigsRequest
from levada.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from levada.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from levada.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from levada.protocol.messages.broker_registration import BrokerRegistrationRequest
from levada.protocol.messages.create_partitions import CreatePartitionsRequest
from levada.protocol.messages.create_topics import CreateTopicsRequest
from levada.protocol.messages.delete_topics import DeleteTopicsRequest
from levada.protocol.messages.describe_quorum import DescribeQuorumRequest
from levada.protocol.messages.elect_leaders import ElectLeadersRequest
from levada.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from levada.protocol.messages.unregister_broker import UnregisterBrokerRequest
from levada.protocol.messages.update_features import UpdateFeaturesRequest

Reply = TypeVar("Reply")

DECIDE: dict[type[AnsweredBy[object]], Callable[[Image, Any, Context], ControllerDecision[Any]]] = {
    CreateTopicsRequest: topics.create,
    DeleteTopicsRequest: topics.delete,
    CreatePartitionsRequest: topics.add_partitions,
    AlterConfigsRequest: configs.alter,
    IncrementalAlterConfigsRequest: configs.alter_incrementally,
    ElectLeadersRequest: brokers.elect_leaders,
    AlterPartitionReassignmentsRequest: reassignments.alter,
    BrokerRegistrationRequest: brokers.register,
    BrokerHeartbeatRequest: brokers.heartbeat,
    UnregisterBrokerRequest: brokers.unregister,
    brokers.FenceRequest: brokers.fence,
    AllocateProducerIdsRequest: brokers.allocate_producer_ids,
    AssignReplicasToDirsRequest: replica_directories.assign,
    DescribeQuorumRequest: quorum.describe,
    UpdateFeaturesRequest: features.update,
    AdoptRequest: adopt,
    SkipProducerIdsRequest: skip_producer_ids,
}


def decide(image: Image, request: AnsweredBy[Reply], context: Context) -> ControllerDecision[Reply]:
    """What a request does to a cluster in this state."""
    return DECIDE[type(request)](image, request, context)
