"""DescribeAcls (api key 29), every version."""

from levada.protocol.declare import Int8, Int16, Int32, Request, String, message, struct


@message(api_key=29, versions="1-3", flexible="2+")
class DescribeAclsRequest(Request["DescribeAclsResponse"]):
    resource_type_filter: Int8
    resource_name_filter: String | None
    pattern_type_filter: Int8 = 3
    principal_filter: String | None
    host_filter: String | None
    operation: Int8
    permission_type: Int8


@struct
class AclDescription:
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@struct
class DescribeAclsResource:
    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = 3
    acls: list[AclDescription]


@message(api_key=29, versions="1-3", flexible="2+")
class DescribeAclsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None
    resources: list[DescribeAclsResource]
