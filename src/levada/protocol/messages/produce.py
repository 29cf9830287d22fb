"""Produce (api key 0), every version."""

from dataclasses import field
from typing import Annotated

from levada.protocol.declare import (
    IGNORABLE,
    NO_UUID,
    Int16,
    Int32,
    Int64,
    Records,
    Request,
    Since,
    String,
    Tag,
    Until,
    Uuid,
    message,
    struct,
)

IMPLICIT_ADD_SINCE = 12
"""A partition is part of the transaction by being written to (KIP-890)."""


@struct
class PartitionProduceData:
    index: Int32
    records: Records | None


@struct
class TopicProduceData:
    name: Annotated[String, Until(12), IGNORABLE] = ""
    topic_id: Annotated[Uuid, Since(13), IGNORABLE] = NO_UUID
    partition_data: list[PartitionProduceData]


@message(api_key=0, versions="3-13", flexible="9+")
class ProduceRequest(Request["ProduceResponse"]):
    transactional_id: String | None = None
    acks: Int16
    timeout_ms: Int32
    topic_data: list[TopicProduceData]


@struct
class BatchIndexAndErrorMessage:
    batch_index: Int32
    batch_index_error_message: String | None = None


@struct
class LeaderIdAndEpoch:
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@struct
class PartitionProduceResponse:
    index: Int32
    error_code: Int16 = 0
    base_offset: Int64
    log_append_time_ms: Int64 = -1
    log_start_offset: Annotated[Int64, Since(5), IGNORABLE] = -1
    record_errors: Annotated[list[BatchIndexAndErrorMessage], Since(8), IGNORABLE] = field(default_factory=list)
    error_message: Annotated[String | None, Since(8), IGNORABLE] = None
    current_leader: Annotated[LeaderIdAndEpoch | None, Since(10), Tag(0)] = None


@struct
class TopicProduceResponse:
    name: Annotated[String, Until(12), IGNORABLE] = ""
    topic_id: Annotated[Uuid, Since(13), IGNORABLE] = NO_UUID
    partition_responses: list[PartitionProduceResponse]


@struct
class NodeEndpoint:
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = None


@message(api_key=0, versions="3-13", flexible="9+")
class ProduceResponse:
    responses: list[TopicProduceResponse]
    throttle_time_ms: Int32 = 0
    node_endpoints: Annotated[list[NodeEndpoint], Since(10), Tag(0)] = field(default_factory=list)
