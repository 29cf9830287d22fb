"""ShareGroupHeartbeat (api key 76), every version."""

from levada.protocol.declare import Int16, Int32, Request, String, Uuid, message, struct


@message(api_key=76, versions="1", flexible="1+")
class ShareGroupHeartbeatRequest(Request["ShareGroupHeartbeatResponse"]):
    group_id: String
    member_id: String
    member_epoch: Int32
    rack_id: String | None = None
    subscribed_topic_names: list[String] | None = None


@struct
class TopicPartitions:
    topic_id: Uuid
    partitions: list[Int32]


@struct
class Assignment:
    topic_partitions: list[TopicPartitions]


@message(api_key=76, versions="1", flexible="1+")
class ShareGroupHeartbeatResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = None
