"""LeaveGroup (api key 13), every version."""

from dataclasses import field
from typing import Annotated

from levada.protocol.declare import IGNORABLE, Int16, Int32, Request, Since, String, Until, message, struct

MANY_MEMBERS_SINCE = 3
"""One request can name several members, static ones too (KIP-345)."""


@struct
class MemberIdentity:
    member_id: String
    group_instance_id: String | None = None
    reason: Annotated[String | None, Since(5), IGNORABLE] = None


@message(api_key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest(Request["LeaveGroupResponse"]):
    group_id: String
    member_id: Annotated[String, Until(2)] = ""
    members: Annotated[list[MemberIdentity], Since(3)] = field(default_factory=list)


@struct
class MemberResponse:
    member_id: String
    group_instance_id: String | None
    error_code: Int16 = 0


@message(api_key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse:
    throttle_time_ms: Annotated[Int32, Since(1), IGNORABLE] = 0
    error_code: Int16 = 0
    members: Annotated[list[MemberResponse], Since(3)] = field(default_factory=list)
