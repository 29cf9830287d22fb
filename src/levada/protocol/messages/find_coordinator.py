"""FindCoordinator (api key 10), every version."""

from dataclasses import field
from typing import Annotated

from levada.protocol.declare import IGNORABLE, Int8, Int16, Int32, Request, Since, String, Until, message, struct

MANY_KEYS_SINCE = 4
"""One request can ask for the coordinators of several keys (KIP-699)."""


@message(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest(Request["FindCoordinatorResponse"]):
    key: Annotated[String, Until(3)] = ""
    key_type: Annotated[Int8, Since(1)] = 0
    coordinator_keys: Annotated[list[String], Since(4)] = field(default_factory=list)


@struct
class Coordinator:
    key: String
    node_id: Int32
    host: String
    port: Int32
    error_code: Int16 = 0
    error_message: String | None


@message(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    throttle_time_ms: Annotated[Int32, Since(1), IGNORABLE] = 0
    error_code: Annotated[Int16, Until(3)] = 0
    error_message: Annotated[String | None, Since(1), Until(3), IGNORABLE] = ""
    node_id: Annotated[Int32, Until(3)] = 0
    host: Annotated[String, Until(3)] = ""
    port: Annotated[Int32, Until(3)] = 0
    coordinators: Annotated[list[Coordinator], Since(4)] = field(default_factory=list)
