"""ListGroups (api key 16), every version."""

from dataclasses import field
from typing import Annotated

from levada.protocol.declare import IGNORABLE, Int16, Int32, Request, Since, String, message, struct


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsRequest(Request["ListGroupsResponse"]):
    states_filter: Annotated[list[String], Since(4)] = field(default_factory=list)
    types_filter: Annotated[list[String], Since(5)] = field(default_factory=list)


@struct
class ListedGroup:
    group_id: String
    protocol_type: String
    group_state: Annotated[String, Since(4), IGNORABLE] = ""
    group_type: Annotated[String, Since(5), IGNORABLE] = ""


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsResponse:
    throttle_time_ms: Annotated[Int32, Since(1), IGNORABLE] = 0
    error_code: Int16 = 0
    groups: list[ListedGroup]
