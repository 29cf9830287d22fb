"""SyncGroup (api key 14), every version."""

from typing import Annotated

from levada.protocol.declare import IGNORABLE, Bytes, Int16, Int32, Request, Since, String, message, struct


@struct
class SyncGroupRequestAssignment:
    member_id: String
    assignment: Bytes


@message(api_key=14, versions="0-5", flexible="4+")
class SyncGroupRequest(Request["SyncGroupResponse"]):
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: Annotated[String | None, Since(3)] = None
    protocol_type: Annotated[String | None, Since(5), IGNORABLE] = None
    protocol_name: Annotated[String | None, Since(5), IGNORABLE] = None
    assignments: list[SyncGroupRequestAssignment]


@message(api_key=14, versions="0-5", flexible="4+")
class SyncGroupResponse:
    throttle_time_ms: Annotated[Int32, Since(1), IGNORABLE] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[String | None, Since(5), IGNORABLE] = None
    protocol_name: Annotated[String | None, Since(5), IGNORABLE] = None
    assignment: Bytes
