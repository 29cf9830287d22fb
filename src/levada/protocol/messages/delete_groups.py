"""DeleteGroups (api key 42), every version."""

from levada.protocol.declare import Int16, Int32, Request, String, message, struct


@message(api_key=42, versions="0-2", flexible="2+")
class DeleteGroupsRequest(Request["DeleteGroupsResponse"]):
    groups_names: list[String]


@struct
class DeletableGroupResult:
    group_id: String
    error_code: Int16 = 0


@message(api_key=42, versions="0-2", flexible="2+")
class DeleteGroupsResponse:
    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult]
