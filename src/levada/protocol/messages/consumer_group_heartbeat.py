"""ConsumerGroupHeartbeat (api key 68), every version."""

from typing import Annotated

from levada.protocol.declare import Int16, Int32, Request, Since, String, Uuid, message, struct

PATTERNS_SINCE = 1
"""Members can subscribe by a regular expression of RE2."""
OWN_MEMBER_ID_SINCE = 1
"""Members make their ids themselves, so that a join that is sent twice is one join."""


@struct
class RequestTopicPartitions:
    topic_id: Uuid
    partitions: list[Int32]


@message(api_key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest(Request["ConsumerGroupHeartbeatResponse"]):
    group_id: String
    member_id: String
    member_epoch: Int32
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: list[String] | None = None
    subscribed_topic_regex: Annotated[String | None, Since(1)] = None
    server_assignor: String | None = None
    topic_partitions: list[RequestTopicPartitions] | None = None


@struct
class ResponseTopicPartitions:
    topic_id: Uuid
    partitions: list[Int32]


@struct
class Assignment:
    topic_partitions: list[ResponseTopicPartitions]


@message(api_key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = None
