"""ShareFetch (api key 78), every version."""

from typing import Annotated

from levada.protocol.declare import (
    IGNORABLE,
    MAX_INT32,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Request,
    Since,
    StoredRecords,
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
class FetchPartition:
    partition_index: Int32
    acknowledgement_batches: list[AcknowledgementBatch]


@struct
class FetchTopic:
    topic_id: Uuid
    partitions: list[FetchPartition]


@struct
class ForgottenTopic:
    topic_id: Uuid
    partitions: list[Int32]


@message(api_key=78, versions="1-2", flexible="1+")
class ShareFetchRequest(Request["ShareFetchResponse"]):
    group_id: String | None = None
    member_id: String | None
    share_session_epoch: Int32
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = MAX_INT32
    max_records: Int32
    batch_size: Int32
    share_acquire_mode: Annotated[Int8, Since(2), IGNORABLE] = 0
    is_renew_ack: Annotated[Bool, Since(2)] = False
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic]


@struct
class LeaderIdAndEpoch:
    leader_id: Int32
    leader_epoch: Int32


@struct
class AcquiredRecords:
    first_offset: Int64
    last_offset: Int64
    delivery_count: Int16


@struct
class PartitionData:
    partition_index: Int32
    error_code: Int16 = 0
    error_message: String | None = None
    acknowledge_error_code: Int16
    acknowledge_error_message: String | None = None
    current_leader: LeaderIdAndEpoch
    records: StoredRecords
    acquired_records: list[AcquiredRecords]


@struct
class ShareFetchableTopicResponse:
    topic_id: Uuid
    partitions: list[PartitionData]


@struct
class NodeEndpoint:
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = None


@message(api_key=78, versions="1-2", flexible="1+")
class ShareFetchResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acquisition_lock_timeout_ms: Int32
    responses: list[ShareFetchableTopicResponse]
    node_endpoints: list[NodeEndpoint]
