"""ElectLeaders (api key 43), every version."""

from typing import Annotated

from levada.protocol.declare import Int8, Int16, Int32, Request, Since, String, message, struct


@struct
class TopicPartitions:
    topic: String
    partitions: list[Int32]


@message(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest(Request["ElectLeadersResponse"]):
    election_type: Annotated[Int8, Since(1)] = 0
    topic_partitions: list[TopicPartitions] | None
    timeout_ms: Int32 = 60000


@struct
class PartitionResult:
    partition_id: Int32
    error_code: Int16 = 0
    error_message: String | None


@struct
class ReplicaElectionResult:
    topic: String
    partition_result: list[PartitionResult]


@message(api_key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse:
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Since(1)] = 0
    replica_election_results: list[ReplicaElectionResult]
