"""ListConfigResources (api key 74), every version."""

from dataclasses import field
from typing import Annotated

from levada.protocol.declare import IGNORABLE, Int8, Int16, Int32, Request, Since, String, message, struct


@message(api_key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest(Request["ListConfigResourcesResponse"]):
    resource_types: Annotated[list[Int8], Since(1)] = field(default_factory=list)


@struct
class ConfigResource:
    resource_name: String
    resource_type: Annotated[Int8, Since(1), IGNORABLE] = 16


@message(api_key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: list[ConfigResource]
