"""DescribeQuorum (api key 55), every version."""

from dataclasses import field
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
    UInt16,
    Uuid,
    message,
    struct,
)


@struct
class RequestPartitionData:
    partition_index: Int32


@struct
class RequestTopicData:
    topic_name: String
    partitions: list[RequestPartitionData]


@message(api_key=55, versions="0-2", flexible="0+")
class DescribeQuorumRequest(Request["DescribeQuorumResponse"]):
    topics: list[RequestTopicData]


@struct
class ReplicaState:
    replica_id: Int32
    replica_directory_id: Annotated[Uuid, Since(2)] = NO_UUID
    log_end_offset: Int64
    last_fetch_timestamp: Annotated[Int64, Since(1), IGNORABLE] = -1
    last_caught_up_timestamp: Annotated[Int64, Since(1), IGNORABLE] = -1


@struct
class ResponsePartitionData:
    partition_index: Int32
    error_code: Int16 = 0
    error_message: Annotated[String | None, Since(2), IGNORABLE] = ""
    leader_id: Int32
    leader_epoch: Int32
    high_watermark: Int64
    current_voters: list[ReplicaState]
    observers: list[ReplicaState]


@struct
class ResponseTopicData:
    topic_name: String
    partitions: list[ResponsePartitionData]


@struct
class Listener:
    name: String
    host: String
    port: UInt16


@struct
class Node:
    node_id: Int32
    listeners: list[Listener]


@message(api_key=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse:
    error_code: Int16 = 0
    error_message: Annotated[String | None, Since(2), IGNORABLE] = ""
    topics: list[ResponseTopicData]
    nodes: Annotated[list[Node], Since(2)] = field(default_factory=list)
