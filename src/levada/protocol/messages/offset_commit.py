"""OffsetCommit (api key 8), every version."""

from typing import Annotated

from levada.protocol.declare import (
    IGNORABLE,
    NO_UUID,
    Int16,
    Int32,
    Int64,
    Request,
    Since,
    String,
    Until,
    Uuid,
    message,
    struct,
)

TOPIC_IDS_SINCE = 10
"""Topics go by their ids from here on, and not by their names (KIP-848)."""


@struct
class OffsetCommitRequestPartition:
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, Since(6), IGNORABLE] = -1
    committed_metadata: String | None


@struct
class OffsetCommitRequestTopic:
    name: Annotated[String, Until(9), IGNORABLE] = ""
    topic_id: Annotated[Uuid, Since(10), IGNORABLE] = NO_UUID
    partitions: list[OffsetCommitRequestPartition]


@message(api_key=8, versions="2-10", flexible="8+")
class OffsetCommitRequest(Request["OffsetCommitResponse"]):
    group_id: String
    generation_id_or_member_epoch: Int32 = -1
    member_id: String
    group_instance_id: Annotated[String | None, Since(7)] = None
    retention_time_ms: Annotated[Int64, Until(4), IGNORABLE] = -1
    topics: list[OffsetCommitRequestTopic]


@struct
class OffsetCommitResponsePartition:
    partition_index: Int32
    error_code: Int16 = 0


@struct
class OffsetCommitResponseTopic:
    name: Annotated[String, Until(9), IGNORABLE] = ""
    topic_id: Annotated[Uuid, Since(10), IGNORABLE] = NO_UUID
    partitions: list[OffsetCommitResponsePartition]


@message(api_key=8, versions="2-10", flexible="8+")
class OffsetCommitResponse:
    throttle_time_ms: Annotated[Int32, Since(3), IGNORABLE] = 0
    topics: list[OffsetCommitResponseTopic]
