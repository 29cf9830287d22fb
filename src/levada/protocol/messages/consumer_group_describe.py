"""ConsumerGroupDescribe (api key 69), every version."""

from typing import Annotated

from levada.protocol.declare import IGNORABLE, Bool, Int8, Int16, Int32, Request, Since, String, Uuid, message, struct


@message(api_key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest(Request["ConsumerGroupDescribeResponse"]):
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
    instance_id: String | None = None
    rack_id: String | None = None
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    subscribed_topic_regex: String | None = None
    assignment: Assignment
    target_assignment: Assignment
    member_type: Annotated[Int8, Since(1), IGNORABLE] = -1


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


@message(api_key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse:
    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup]
