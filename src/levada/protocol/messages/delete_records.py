"""DeleteRecords (api key 21), every version."""

from levada.protocol.declare import Int16, Int32, Int64, Request, String, message, struct


@struct
class DeleteRecordsPartition:
    partition_index: Int32
    offset: Int64


@struct
class DeleteRecordsTopic:
    name: String
    partitions: list[DeleteRecordsPartition]


@message(api_key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest(Request["DeleteRecordsResponse"]):
    topics: list[DeleteRecordsTopic]
    timeout_ms: Int32


@struct
class DeleteRecordsPartitionResult:
    partition_index: Int32
    low_watermark: Int64
    error_code: Int16 = 0


@struct
class DeleteRecordsTopicResult:
    name: String
    partitions: list[DeleteRecordsPartitionResult]


@message(api_key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse:
    throttle_time_ms: Int32 = 0
    topics: list[DeleteRecordsTopicResult]
