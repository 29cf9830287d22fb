"""DeleteShareGroupState (api key 86), every version."""

from levada.protocol.declare import Int16, Int32, Request, String, Uuid, message, struct


@struct
class PartitionData:
    partition: Int32


@struct
class DeleteStateData:
    topic_id: Uuid
    partitions: list[PartitionData]


@message(api_key=86, versions="0", flexible="0+")
class DeleteShareGroupStateRequest(Request["DeleteShareGroupStateResponse"]):
    group_id: String
    topics: list[DeleteStateData]


@struct
class PartitionResult:
    partition: Int32
    error_code: Int16 = 0
    error_message: String | None = None


@struct
class DeleteStateResult:
    topic_id: Uuid
    partitions: list[PartitionResult]


@message(api_key=86, versions="0", flexible="0+")
class DeleteShareGroupStateResponse:
    results: list[DeleteStateResult]
