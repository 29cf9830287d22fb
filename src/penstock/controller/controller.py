"""Every request that changes the cluster, and the function that decides it."""

from collections.abc import Callable
from typing import Any

from penstock.controller import brokers, configs, reassignments, replica_directories, topics
from penstock.controller.adoption import AdoptRequest, SkipProducerIdsRequest, adopt, skip_producer_ids
from penstock.controller.decision import Context, Decision
from penstock.metadata.image import Image
from penstock.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from penstock.protocol.messages.alter_configs import AlterConfigsRequest
from penstock.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from penstock.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.protocol.messages.broker_registration import BrokerRegistrationRequest
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest
from penstock.protocol.messages.create_topics import CreateTopicsRequest
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest
from penstock.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest

DECIDE: dict[type[Any], Callable[[Image, Any, Context], Decision]] = {
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
    AllocateProducerIdsRequest: brokers.allocate_producer_ids,
    AssignReplicasToDirsRequest: replica_directories.assign,
    AdoptRequest: adopt,
    SkipProducerIdsRequest: skip_producer_ids,
}


def decide(image: Image, request: Any, context: Context) -> Decision:
    """What a request does to a cluster in this state."""
    return DECIDE[type(request)](image, request, context)
