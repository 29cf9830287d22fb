"""IncrementalAlterConfigs (api key 44), every version."""

from levada.protocol.declare import Bool, Int8, Int16, Int32, Request, String, message, struct


@struct
class AlterableConfig:
    name: String
    config_operation: Int8
    value: String | None


@struct
class AlterConfigsResource:
    resource_type: Int8
    resource_name: String
    configs: list[AlterableConfig]


@message(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest(Request["IncrementalAlterConfigsResponse"]):
    resources: list[AlterConfigsResource]
    validate_only: Bool


@struct
class AlterConfigsResourceResponse:
    error_code: Int16 = 0
    error_message: String | None
    resource_type: Int8
    resource_name: String


@message(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse]
