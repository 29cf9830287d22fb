"""CreateAcls (api key 30), every version."""

from levada.protocol.declare import Int8, Int16, Int32, Request, String, message, struct


@struct
class AclCreation:
    resource_type: Int8
    resource_name: String
    resource_pattern_type: Int8 = 3
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@message(api_key=30, versions="1-3", flexible="2+")
class CreateAclsRequest(Request["CreateAclsResponse"]):
    creations: list[AclCreation]


@struct
class AclCreationResult:
    error_code: Int16 = 0
    error_message: String | None


@message(api_key=30, versions="1-3", flexible="2+")
class CreateAclsResponse:
    throttle_time_ms: Int32 = 0
    results: list[AclCreationResult]
