"""ReadShareGroupStateSummary (api key 87), every version."""

from typing import Annotated

from levada.protocol.declare import IGNORABLE, Int16, Int32, Int64, Request, Since, String, Uuid, message, struct


@struct
class PartitionData:
    partition: Int32
    leader_epoch: Int32


@struct
class ReadStateSummaryData:
    topic_id: Uuid
    partitions: list[PartitionData]


@message(api_key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryRequest(Request["ReadShareGroupStateSummaryResponse"]):
    group_id: String
    topics: list[ReadStateSummaryData]


@struct
class PartitionResult:
    partition: Int32
    error_code: Int16 = 0
    error_message: String | None = None
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Annotated[Int32, Since(1), IGNORABLE] = -1


@struct
class ReadStateSummaryResult:
    topic_id: Uuid
    partitions: list[PartitionResult]


@message(api_key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryResponse:
    results: list[ReadStateSummaryResult]
