"""Heartbeat v0-4. v3 static members (KIP-345), v4 flexible."""

from collections.abc import Awaitable

from levada.broker.group_requests import ask
from levada.broker.route import Request
from levada.model.error_codes import ErrorCode
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

API = ApiKey.HEARTBEAT
VERSIONS = stable_versions(API)


def handle(message: HeartbeatRequest, request: Request) -> HeartbeatResponse | Awaitable[HeartbeatResponse]:
    if not message.group_id:
        return HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    return ask(
        request,
        message.group_id,
        lambda machine, token, now_ms: machine.heartbeat(token, message, now_ms),
        _answered,
        _refused,
    )


def _answered(code: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=code)


def _refused(code: ErrorCode) -> HeartbeatResponse:
    # As Apache does: a member that hears nothing wrong comes again later.
    is_loading = code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else code)
