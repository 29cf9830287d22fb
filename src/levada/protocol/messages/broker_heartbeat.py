"""BrokerHeartbeat (api key 63), every version."""

from dataclasses import field
from typing import Annotated

from levada.protocol.declare import Bool, Int16, Int32, Int64, Request, Since, Tag, Uuid, message


@message(api_key=63, versions="0-2", flexible="0+")
class BrokerHeartbeatRequest(Request["BrokerHeartbeatResponse"]):
    broker_id: Int32
    broker_epoch: Int64 = -1
    current_metadata_offset: Int64
    want_fence: Bool
    want_shut_down: Bool
    offline_log_dirs: Annotated[list[Uuid], Since(1), Tag(0)] = field(default_factory=list)
    cordoned_log_dirs: Annotated[list[Uuid] | None, Since(2), Tag(1)] = None


@message(api_key=63, versions="0-2", flexible="0+")
class BrokerHeartbeatResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    is_caught_up: Bool = False
    is_fenced: Bool = True
    should_shut_down: Bool
