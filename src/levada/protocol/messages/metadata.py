"""Metadata (api key 3), every version."""

from dataclasses import field
from typing import Annotated

from levada.protocol.declare import (
    IGNORABLE,
    NO_UUID,
    Bool,
    Int16,
    Int32,
    NullableSince,
    Request,
    Since,
    String,
    Until,
    Uuid,
    message,
    struct,
)


@struct
class MetadataRequestTopic:
    topic_id: Annotated[Uuid, Since(10), IGNORABLE] = NO_UUID
    name: Annotated[String | None, NullableSince(10)]


@message(api_key=3, versions="0-13", flexible="9+")
class MetadataRequest(Request["MetadataResponse"]):
    topics: Annotated[list[MetadataRequestTopic] | None, NullableSince(1)]
    allow_auto_topic_creation: Annotated[Bool, Since(4)] = True
    include_cluster_authorized_operations: Annotated[Bool, Since(8), Until(10)] = False
    include_topic_authorized_operations: Annotated[Bool, Since(8)] = False


@struct
class MetadataResponseBroker:
    node_id: Int32
    host: String
    port: Int32
    rack: Annotated[String | None, Since(1), IGNORABLE] = None


@struct
class MetadataResponsePartition:
    error_code: Int16 = 0
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Annotated[Int32, Since(7), IGNORABLE] = -1
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    offline_replicas: Annotated[list[Int32], Since(5), IGNORABLE] = field(default_factory=list)


@struct
class MetadataResponseTopic:
    error_code: Int16 = 0
    name: Annotated[String | None, NullableSince(12)]
    topic_id: Annotated[Uuid, Since(10), IGNORABLE] = NO_UUID
    is_internal: Annotated[Bool, Since(1), IGNORABLE] = False
    partitions: list[MetadataResponsePartition]
    topic_authorized_operations: Annotated[Int32, Since(8)] = -2147483648


@message(api_key=3, versions="0-13", flexible="9+")
class MetadataResponse:
    throttle_time_ms: Annotated[Int32, Since(3), IGNORABLE] = 0
    brokers: list[MetadataResponseBroker]
    cluster_id: Annotated[String | None, Since(2), IGNORABLE] = None
    controller_id: Annotated[Int32, Since(1), IGNORABLE] = -1
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: Annotated[Int32, Since(8), Until(10)] = -2147483648
    error_code: Annotated[Int16, Since(13), IGNORABLE] = 0
