"""AlterPartitionReassignments (api key 45), every version."""

from typing import Annotated

from levada.protocol.declare import IGNORABLE, Bool, Int16, Int32, Request, Since, String, message, struct


@struct
class ReassignablePartition:
    partition_index: Int32
    replicas: list[Int32] | None = None


@struct
class ReassignableTopic:
    name: String
    partitions: list[ReassignablePartition]


@message(api_key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest(Request["AlterPartitionReassignmentsResponse"]):
    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Annotated[Bool, Since(1)] = True
    topics: list[ReassignableTopic]


@struct
class ReassignablePartitionResponse:
    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None


@struct
class ReassignableTopicResponse:
    name: String
    partitions: list[ReassignablePartitionResponse]


@message(api_key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Annotated[Bool, Since(1), IGNORABLE] = True
    error_code: Int16 = 0
    error_message: String | None
    responses: list[ReassignableTopicResponse]
