"""ListOffsets (api key 2), every version."""

from typing import Annotated

from levada.protocol.declare import IGNORABLE, Int8, Int16, Int32, Int64, Request, Since, String, message, struct


@struct
class ListOffsetsPartition:
    partition_index: Int32
    current_leader_epoch: Annotated[Int32, Since(4), IGNORABLE] = -1
    timestamp: Int64


@struct
class ListOffsetsTopic:
    name: String
    partitions: list[ListOffsetsPartition]


@message(api_key=2, versions="1-11", flexible="6+")
class ListOffsetsRequest(Request["ListOffsetsResponse"]):
    replica_id: Int32
    isolation_level: Annotated[Int8, Since(2)] = 0
    topics: list[ListOffsetsTopic]
    timeout_ms: Annotated[Int32, Since(10), IGNORABLE] = 0


@struct
class ListOffsetsPartitionResponse:
    partition_index: Int32
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Annotated[Int32, Since(4)] = -1


@struct
class ListOffsetsTopicResponse:
    name: String
    partitions: list[ListOffsetsPartitionResponse]


@message(api_key=2, versions="1-11", flexible="6+")
class ListOffsetsResponse:
    throttle_time_ms: Annotated[Int32, Since(2), IGNORABLE] = 0
    topics: list[ListOffsetsTopicResponse]
