"""OffsetForLeaderEpoch (api key 23), every version."""

from typing import Annotated

from levada.protocol.declare import IGNORABLE, Int16, Int32, Int64, Request, Since, String, message, struct


@struct
class OffsetForLeaderPartition:
    partition: Int32
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32


@struct
class OffsetForLeaderTopic:
    topic: String
    partitions: list[OffsetForLeaderPartition]


@message(api_key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochRequest(Request["OffsetForLeaderEpochResponse"]):
    replica_id: Annotated[Int32, Since(3), IGNORABLE] = -2
    topics: list[OffsetForLeaderTopic]


@struct
class EpochEndOffset:
    error_code: Int16 = 0
    partition: Int32
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


@struct
class OffsetForLeaderTopicResult:
    topic: String
    partitions: list[EpochEndOffset]


@message(api_key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochResponse:
    throttle_time_ms: Int32 = 0
    topics: list[OffsetForLeaderTopicResult]
