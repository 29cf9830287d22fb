"""Heartbeat (api key 12), every version."""

from typing import Annotated

from levada.protocol.declare import IGNORABLE, Int16, Int32, Request, Since, String, message


@message(api_key=12, versions="0-4", flexible="4+")
class HeartbeatRequest(Request["HeartbeatResponse"]):
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: Annotated[String | None, Since(3)] = None


@message(api_key=12, versions="0-4", flexible="4+")
class HeartbeatResponse:
    throttle_time_ms: Annotated[Int32, Since(1), IGNORABLE] = 0
    error_code: Int16 = 0
