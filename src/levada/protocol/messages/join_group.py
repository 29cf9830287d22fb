"""JoinGroup (api key 11), every version."""

from typing import Annotated

from levada.protocol.declare import (
    IGNORABLE,
    Bool,
    Bytes,
    Int16,
    Int32,
    NullableSince,
    Request,
    Since,
    String,
    message,
    struct,
)

MEMBER_ID_SINCE = 4
"""A new member is told MEMBER_ID_REQUIRED, and comes again with the id that it was given (KIP-394)."""
SKIP_ASSIGNMENT_SINCE = 9
"""A leader that returns may be told that nothing is to be assigned (KIP-814)."""


@struct
class JoinGroupRequestProtocol:
    name: String
    metadata: Bytes


@message(api_key=11, versions="0-9", flexible="6+")
class JoinGroupRequest(Request["JoinGroupResponse"]):
    group_id: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Annotated[Int32, Since(1), IGNORABLE] = -1
    member_id: String
    group_instance_id: Annotated[String | None, Since(5)] = None
    protocol_type: String
    protocols: list[JoinGroupRequestProtocol]
    reason: Annotated[String | None, Since(8), IGNORABLE] = None


@struct
class JoinGroupResponseMember:
    member_id: String
    group_instance_id: Annotated[String | None, Since(5), IGNORABLE] = None
    metadata: Bytes


@message(api_key=11, versions="0-9", flexible="6+")
class JoinGroupResponse:
    throttle_time_ms: Annotated[Int32, Since(2), IGNORABLE] = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[String | None, Since(7), IGNORABLE] = None
    protocol_name: Annotated[String | None, NullableSince(7)]
    leader: String
    skip_assignment: Annotated[Bool, Since(9)] = False
    member_id: String
    members: list[JoinGroupResponseMember]
