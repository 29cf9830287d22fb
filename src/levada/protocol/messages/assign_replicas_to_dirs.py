"""AssignReplicasToDirs (api key 73), every version."""

from levada.protocol.declare import Int16, Int32, Int64, Request, Uuid, message, struct


@struct
class PartitionToAssign:
    partition_index: Int32


@struct
class TopicToAssign:
    topic_id: Uuid
    partitions: list[PartitionToAssign]


@struct
class DirectoryToAssign:
    id: Uuid
    topics: list[TopicToAssign]


@message(api_key=73, versions="0", flexible="0+")
class AssignReplicasToDirsRequest(Request["AssignReplicasToDirsResponse"]):
    broker_id: Int32
    broker_epoch: Int64 = -1
    directories: list[DirectoryToAssign]


@struct
class AssignedPartition:
    partition_index: Int32
    error_code: Int16 = 0


@struct
class AssignedTopic:
    topic_id: Uuid
    partitions: list[AssignedPartition]


@struct
class AssignedDirectory:
    id: Uuid
    topics: list[AssignedTopic]


@message(api_key=73, versions="0", flexible="0+")
class AssignReplicasToDirsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    directories: list[AssignedDirectory]
