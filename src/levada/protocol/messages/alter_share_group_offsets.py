"""AlterShareGroupOffsets (api key 91), every version."""

from levada.protocol.declare import Int16, Int32, Int64, Request, String, Uuid, message, struct


@struct
class AlterShareGroupOffsetsRequestPartition:
    partition_index: Int32
    start_offset: Int64


@struct
class AlterShareGroupOffsetsRequestTopic:
    topic_name: String
    partitions: list[AlterShareGroupOffsetsRequestPartition]


@message(api_key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsRequest(Request["AlterShareGroupOffsetsResponse"]):
    group_id: String
    topics: list[AlterShareGroupOffsetsRequestTopic]


@struct
class AlterShareGroupOffsetsResponsePartition:
    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None = None


@struct
class AlterShareGroupOffsetsResponseTopic:
    topic_name: String
    topic_id: Uuid
    partitions: list[AlterShareGroupOffsetsResponsePartition]


@message(api_key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic]
