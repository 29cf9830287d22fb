"""OffsetDelete (api key 47), every version."""

from levada.protocol.declare import Int16, Int32, Request, String, message, struct


@struct
class OffsetDeleteRequestPartition:
    partition_index: Int32


@struct
class OffsetDeleteRequestTopic:
    name: String
    partitions: list[OffsetDeleteRequestPartition]


@message(api_key=47, versions="0")
class OffsetDeleteRequest(Request["OffsetDeleteResponse"]):
    group_id: String
    topics: list[OffsetDeleteRequestTopic]


@struct
class OffsetDeleteResponsePartition:
    partition_index: Int32
    error_code: Int16 = 0


@struct
class OffsetDeleteResponseTopic:
    name: String
    partitions: list[OffsetDeleteResponsePartition]


@message(api_key=47, versions="0")
class OffsetDeleteResponse:
    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic]
