"""ShareAcknowledge (api key 79), every version."""

from typing import Annotated

from levada.protocol.declare import (
    IGNORABLE,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Request,
    Since,
    String,
    Uuid,
    message,
    struct,
)


@struct
class AcknowledgementBatch:
    first_offset: Int64
    last_offset: Int64
    acknowledge_types: list[Int8]


@struct
class AcknowledgePartition:
    partition_index: Int32
    acknowledgement_batches: list[AcknowledgementBatch]


@struct
class AcknowledgeTopic:
    topic_id: Uuid
    partitions: list[AcknowledgePartition]


@message(api_key=79, versions="1-2", flexible="1+")
class ShareAcknowledgeRequest(Request["ShareAcknowledgeResponse"]):
    group_id: String | None = None
    member_id: String | None
    share_session_epoch: Int32
    is_renew_ack: Annotated[Bool, Since(2)] = False
    topics: list[AcknowledgeTopic]


@struct
class LeaderIdAndEpoch:
    leader_id: Int32
    leader_epoch: Int32


@struct
class PartitionData:
    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None = None
    current_leader: LeaderIdAndEpoch


@struct
class ShareAcknowledgeTopicResponse:
    topic_id: Uuid
    partitions: list[PartitionData]


@struct
class NodeEndpoint:
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = None


@message(api_key=79, versions="1-2", flexible="1+")
class ShareAcknowledgeResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acquisition_lock_timeout_ms: Annotated[Int32, Since(2), IGNORABLE] = 0
    responses: list[ShareAcknowledgeTopicResponse]
    node_endpoints: list[NodeEndpoint]
