"""CreateTopics (api key 19), every version."""

from dataclasses import field
from typing import Annotated

from levada.protocol.declare import (
    IGNORABLE,
    NO_UUID,
    Bool,
    Int8,
    Int16,
    Int32,
    Request,
    Since,
    String,
    Tag,
    Uuid,
    message,
    struct,
)


@struct
class CreatableReplicaAssignment:
    partition_index: Int32
    broker_ids: list[Int32]


@struct
class CreatableTopicConfig:
    name: String
    value: String | None


@struct
class CreatableTopic:
    name: String
    num_partitions: Int32
    replication_factor: Int16
    assignments: list[CreatableReplicaAssignment]
    configs: list[CreatableTopicConfig]


@message(api_key=19, versions="2-7", flexible="5+")
class CreateTopicsRequest(Request["CreateTopicsResponse"]):
    topics: list[CreatableTopic]
    timeout_ms: Int32 = 60000
    validate_only: Bool = False


@struct
class CreatableTopicConfigs:
    name: String
    value: String | None
    read_only: Bool
    config_source: Int8 = -1
    is_sensitive: Bool


@struct
class CreatableTopicResult:
    name: String
    topic_id: Annotated[Uuid, Since(7), IGNORABLE] = NO_UUID
    error_code: Int16 = 0
    error_message: String | None
    topic_config_error_code: Annotated[Int16, Since(5), Tag(0), IGNORABLE] = 0
    num_partitions: Annotated[Int32, Since(5), IGNORABLE] = -1
    replication_factor: Annotated[Int16, Since(5), IGNORABLE] = -1
    configs: Annotated[list[CreatableTopicConfigs] | None, Since(5), IGNORABLE] = field(default_factory=list)


@message(api_key=19, versions="2-7", flexible="5+")
class CreateTopicsResponse:
    throttle_time_ms: Int32 = 0
    topics: list[CreatableTopicResult]
