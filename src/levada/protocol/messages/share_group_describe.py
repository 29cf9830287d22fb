"""ShareGroupDescribe (api key 77), every version."""

from levada.protocol.declare import Bool, Int16, Int32, Request, String, Uuid, message, struct


@message(api_key=77, versions="1", flexible="1+")
class ShareGroupDescribeRequest(Request["ShareGroupDescribeResponse"]):
    group_ids: list[String]
    include_authorized_operations: Bool


@struct
class TopicPartitions:
    topic_id: Uuid
    topic_name: String
    partitions: list[Int32]


@struct
class Assignment:
    topic_partitions: list[TopicPartitions]


@struct
class Member:
    member_id: String
    rack_id: String | None = None
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    assignment: Assignment


@struct
class DescribedGroup:
    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String
    group_state: String
    group_epoch: Int32
    assignment_epoch: Int32
    assignor_name: String
    members: list[Member]
    authorized_operations: Int32 = -2147483648


@message(api_key=77, versions="1", flexible="1+")
class ShareGroupDescribeResponse:
    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup]
