"""StreamsGroupHeartbeat (api key 88), every version."""

from levada.protocol.declare import Bool, Int8, Int16, Int32, Int64, Request, String, UInt16, message, struct


@struct
class KeyValue:
    key: String
    value: String


@struct
class TopicInfo:
    name: String
    partitions: Int32
    replication_factor: Int16
    topic_configs: list[KeyValue]


@struct
class CopartitionGroup:
    source_topics: list[Int16]
    source_topic_regex: list[Int16]
    repartition_source_topics: list[Int16]


@struct
class Subtopology:
    subtopology_id: String
    source_topics: list[String]
    source_topic_regex: list[String]
    state_changelog_topics: list[TopicInfo]
    repartition_sink_topics: list[String]
    repartition_source_topics: list[TopicInfo]
    copartition_groups: list[CopartitionGroup]


@struct
class Topology:
    epoch: Int32
    subtopologies: list[Subtopology]


@struct
class RequestTaskIds:
    subtopology_id: String
    partitions: list[Int32]


@struct
class RequestEndpoint:
    host: String
    port: UInt16


@struct
class TaskOffset:
    subtopology_id: String
    partition: Int32
    offset: Int64


@message(api_key=88, versions="0", flexible="0+")
class StreamsGroupHeartbeatRequest(Request["StreamsGroupHeartbeatResponse"]):
    group_id: String
    member_id: String
    member_epoch: Int32
    endpoint_information_epoch: Int32
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    topology: Topology | None = None
    active_tasks: list[RequestTaskIds] | None = None
    standby_tasks: list[RequestTaskIds] | None = None
    warmup_tasks: list[RequestTaskIds] | None = None
    process_id: String | None = None
    user_endpoint: RequestEndpoint | None = None
    client_tags: list[KeyValue] | None = None
    task_offsets: list[TaskOffset] | None = None
    task_end_offsets: list[TaskOffset] | None = None
    shutdown_application: Bool = False


@struct
class Status:
    status_code: Int8
    status_detail: String


@struct
class ResponseTaskIds:
    subtopology_id: String
    partitions: list[Int32]


@struct
class ResponseEndpoint:
    host: String
    port: UInt16


@struct
class TopicPartition:
    topic: String
    partitions: list[Int32]


@struct
class EndpointToPartitions:
    user_endpoint: ResponseEndpoint
    active_partitions: list[TopicPartition]
    standby_partitions: list[TopicPartition]


@message(api_key=88, versions="0", flexible="0+")
class StreamsGroupHeartbeatResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    acceptable_recovery_lag: Int32
    task_offset_interval_ms: Int32
    status: list[Status] | None
    active_tasks: list[ResponseTaskIds] | None = None
    standby_tasks: list[ResponseTaskIds] | None = None
    warmup_tasks: list[ResponseTaskIds] | None = None
    endpoint_information_epoch: Int32
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = None
