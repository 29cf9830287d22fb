"""DescribeGroups (api key 15), every version."""

from typing import Annotated

from levada.protocol.declare import IGNORABLE, Bool, Bytes, Int16, Int32, Request, Since, String, message, struct


@message(api_key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest(Request["DescribeGroupsResponse"]):
    groups: list[String]
    include_authorized_operations: Annotated[Bool, Since(3)] = False


@struct
class DescribedGroupMember:
    member_id: String
    group_instance_id: Annotated[String | None, Since(4), IGNORABLE] = None
    client_id: String
    client_host: String
    member_metadata: Bytes
    member_assignment: Bytes


@struct
class DescribedGroup:
    error_code: Int16 = 0
    error_message: Annotated[String | None, Since(6)] = None
    group_id: String
    group_state: String
    protocol_type: String
    protocol_data: String
    members: list[DescribedGroupMember]
    authorized_operations: Annotated[Int32, Since(3)] = -2147483648


@message(api_key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse:
    throttle_time_ms: Annotated[Int32, Since(1), IGNORABLE] = 0
    groups: list[DescribedGroup]
