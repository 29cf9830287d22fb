"""InitializeShareGroupState (api key 83), every version."""

from levada.protocol.declare import Int16, Int32, Int64, Request, String, Uuid, message, struct


@struct
class PartitionData:
    partition: Int32
    state_epoch: Int32
    start_offset: Int64


@struct
class InitializeStateData:
    topic_id: Uuid
    partitions: list[PartitionData]


@message(api_key=83, versions="0", flexible="0+")
class InitializeShareGroupStateRequest(Request["InitializeShareGroupStateResponse"]):
    group_id: String
    topics: list[InitializeStateData]


@struct
class PartitionResult:
    partition: Int32
    error_code: Int16 = 0
    error_message: String | None = None


@struct
class InitializeStateResult:
    topic_id: Uuid
    partitions: list[PartitionResult]


@message(api_key=83, versions="0", flexible="0+")
class InitializeShareGroupStateResponse:
    results: list[InitializeStateResult]
