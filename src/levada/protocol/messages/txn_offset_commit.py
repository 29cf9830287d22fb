"""TxnOffsetCommit (api key 28), every version."""

from typing import Annotated

from levada.protocol.declare import IGNORABLE, Int16, Int32, Int64, Request, Since, String, message, struct

IMPLICIT_ADD_SINCE = 5
"""The group is part of the transaction by having offsets committed in it (KIP-890)."""


@struct
class TxnOffsetCommitRequestPartition:
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, Since(2), IGNORABLE] = -1
    committed_metadata: String | None


@struct
class TxnOffsetCommitRequestTopic:
    name: String
    partitions: list[TxnOffsetCommitRequestPartition]


@message(api_key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitRequest(Request["TxnOffsetCommitResponse"]):
    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Annotated[Int32, Since(3)] = -1
    member_id: Annotated[String, Since(3)] = ""
    group_instance_id: Annotated[String | None, Since(3)] = None
    topics: list[TxnOffsetCommitRequestTopic]


@struct
class TxnOffsetCommitResponsePartition:
    partition_index: Int32
    error_code: Int16 = 0


@struct
class TxnOffsetCommitResponseTopic:
    name: String
    partitions: list[TxnOffsetCommitResponsePartition]


@message(api_key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitResponse:
    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic]
