"""AlterReplicaLogDirs (api key 34), every version."""

from levada.protocol.declare import Int16, Int32, Request, String, message, struct


@struct
class AlterReplicaLogDirTopic:
    name: String
    partitions: list[Int32]


@struct
class AlterReplicaLogDir:
    path: String
    topics: list[AlterReplicaLogDirTopic]


@message(api_key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsRequest(Request["AlterReplicaLogDirsResponse"]):
    dirs: list[AlterReplicaLogDir]


@struct
class AlterReplicaLogDirPartitionResult:
    partition_index: Int32
    error_code: Int16 = 0


@struct
class AlterReplicaLogDirTopicResult:
    topic_name: String
    partitions: list[AlterReplicaLogDirPartitionResult]


@message(api_key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsResponse:
    throttle_time_ms: Int32 = 0
    results: list[AlterReplicaLogDirTopicResult]
