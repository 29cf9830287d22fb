"""DescribeConfigs (api key 32), every version."""

from typing import Annotated

from levada.protocol.declare import IGNORABLE, Bool, Int8, Int16, Int32, Request, Since, String, message, struct


@struct
class DescribeConfigsResource:
    resource_type: Int8
    resource_name: String
    configuration_keys: list[String] | None


@message(api_key=32, versions="1-4", flexible="4+")
class DescribeConfigsRequest(Request["DescribeConfigsResponse"]):
    resources: list[DescribeConfigsResource]
    include_synonyms: Bool = False
    include_documentation: Annotated[Bool, Since(3)] = False


@struct
class DescribeConfigsSynonym:
    name: String
    value: String | None
    source: Int8


@struct
class DescribeConfigsResourceResult:
    name: String
    value: String | None
    read_only: Bool
    config_source: Int8 = -1
    is_sensitive: Bool
    synonyms: list[DescribeConfigsSynonym]
    config_type: Annotated[Int8, Since(3), IGNORABLE] = 0
    documentation: Annotated[String | None, Since(3), IGNORABLE] = ""


@struct
class DescribeConfigsResult:
    error_code: Int16 = 0
    error_message: String | None
    resource_type: Int8
    resource_name: String
    configs: list[DescribeConfigsResourceResult]


@message(api_key=32, versions="1-4", flexible="4+")
class DescribeConfigsResponse:
    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult]
