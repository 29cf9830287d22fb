"""AlterConfigs (api key 33), every version."""

from levada.protocol.declare import Bool, Int8, Int16, Int32, Request, String, message, struct


@struct
class AlterableConfig:
    name: String
    value: String | None


@struct
class AlterConfigsResource:
    resource_type: Int8
    resource_name: String
    configs: list[AlterableConfig]


@message(api_key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest(Request["AlterConfigsResponse"]):
    resources: list[AlterConfigsResource]
    validate_only: Bool


@struct
class AlterConfigsResourceResponse:
    error_code: Int16 = 0
    error_message: String | None
    resource_type: Int8
    resource_name: String


@message(api_key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse:
    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse]
