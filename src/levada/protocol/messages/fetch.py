"""Fetch (api key 1), every version."""

from dataclasses import field
from typing import Annotated

from levada.protocol.declare import (
    IGNORABLE,
    MAX_INT32,
    MAX_INT64,
    NO_UUID,
    Int8,
    Int16,
    Int32,
    Int64,
    Request,
    Since,
    StoredRecords,
    String,
    Tag,
    Until,
    Uuid,
    message,
    struct,
)

TOPIC_IDS_SINCE = 13
"""Topics go by their ids from here on, and not by their names (KIP-516)."""


@struct
class ReplicaState:
    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


@struct
class FetchPartition:
    partition: Int32
    current_leader_epoch: Annotated[Int32, Since(9), IGNORABLE] = -1
    fetch_offset: Int64
    last_fetched_epoch: Annotated[Int32, Since(12)] = -1
    log_start_offset: Annotated[Int64, Since(5), IGNORABLE] = -1
    partition_max_bytes: Int32
    replica_directory_id: Annotated[Uuid, Since(17), Tag(0), IGNORABLE] = NO_UUID
    high_watermark: Annotated[Int64, Since(18), Tag(1), IGNORABLE] = MAX_INT64


@struct
class FetchTopic:
    topic: Annotated[String, Until(12), IGNORABLE] = ""
    topic_id: Annotated[Uuid, Since(13), IGNORABLE] = NO_UUID
    partitions: list[FetchPartition]


@struct
class ForgottenTopic:
    topic: Annotated[String, Until(12), IGNORABLE] = ""
    topic_id: Annotated[Uuid, Since(13), IGNORABLE] = NO_UUID
    partitions: list[Int32]


@message(api_key=1, versions="4-18", flexible="12+")
class FetchRequest(Request["FetchResponse"]):
    cluster_id: Annotated[String | None, Since(12), Tag(0), IGNORABLE] = None
    replica_id: Annotated[Int32, Until(14)] = -1
    replica_state: Annotated[ReplicaState | None, Since(15), Tag(1)] = None
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = MAX_INT32
    isolation_level: Int8 = 0
    session_id: Annotated[Int32, Since(7), IGNORABLE] = 0
    session_epoch: Annotated[Int32, Since(7), IGNORABLE] = -1
    topics: list[FetchTopic]
    forgotten_topics_data: Annotated[list[ForgottenTopic], Since(7)] = field(default_factory=list)
    rack_id: Annotated[String, Since(11), IGNORABLE] = ""


@struct
class EpochEndOffset:
    epoch: Int32 = -1
    end_offset: Int64 = -1


@struct
class LeaderIdAndEpoch:
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@struct
class SnapshotId:
    end_offset: Int64 = -1
    epoch: Int32 = -1


@struct
class AbortedTransaction:
    producer_id: Int64
    first_offset: Int64


@struct
class PartitionData:
    partition_index: Int32
    error_code: Int16 = 0
    high_watermark: Int64
    last_stable_offset: Int64 = -1
    log_start_offset: Annotated[Int64, Since(5), IGNORABLE] = -1
    diverging_epoch: Annotated[EpochEndOffset | None, Since(12), Tag(0)] = None
    current_leader: Annotated[LeaderIdAndEpoch | None, Since(12), Tag(1)] = None
    snapshot_id: Annotated[SnapshotId | None, Since(12), Tag(2)] = None
    aborted_transactions: list[AbortedTransaction] | None
    preferred_read_replica: Annotated[Int32, Since(11)] = -1
    records: StoredRecords | None


@struct
class FetchableTopicResponse:
    topic: Annotated[String, Until(12), IGNORABLE] = ""
    topic_id: Annotated[Uuid, Since(13), IGNORABLE] = NO_UUID
    partitions: list[PartitionData]


@struct
class NodeEndpoint:
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = None


@message(api_key=1, versions="4-18", flexible="12+")
class FetchResponse:
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Since(7), IGNORABLE] = 0
    session_id: Annotated[Int32, Since(7)] = 0
    responses: list[FetchableTopicResponse]
    node_endpoints: Annotated[list[NodeEndpoint], Since(16), Tag(0)] = field(default_factory=list)
