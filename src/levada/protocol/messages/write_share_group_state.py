"""WriteShareGroupState (api key 85), every version."""

from typing import Annotated

from levada.protocol.declare import IGNORABLE, Int8, Int16, Int32, Int64, Request, Since, String, Uuid, message, struct


@struct
class StateBatch:
    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


@struct
class PartitionData:
    partition: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Annotated[Int32, Since(1), IGNORABLE] = -1
    state_batches: list[StateBatch]


@struct
class WriteStateData:
    topic_id: Uuid
    partitions: list[PartitionData]


@message(api_key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateRequest(Request["WriteShareGroupStateResponse"]):
    group_id: String
    topics: list[WriteStateData]


@struct
class PartitionResult:
    partition: Int32
    error_code: Int16 = 0
    error_message: String | None = None


@struct
class WriteStateResult:
    topic_id: Uuid
    partitions: list[PartitionResult]


@message(api_key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateResponse:
    results: list[WriteStateResult]
