"""SyncGroup v0-5. v3 static members (KIP-345), v4 flexible, v5 protocol type and name must be given (KIP-559)."""

from collections.abc import Awaitable

from levada.broker.group_requests import ask
from levada.broker.route import Request
from levada.model.error_codes import ErrorCode
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

API = ApiKey.SYNC_GROUP
VERSIONS = stable_versions(API)

PROTOCOL_SINCE = 5
"""Members say which protocol the group has chosen (KIP-559)."""


def handle(message: SyncGroupRequest, request: Request) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    if request.version >= PROTOCOL_SINCE and (message.protocol_type is None or message.protocol_name is None):
        return _refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not message.group_id:
        return _refused(ErrorCode.INVALID_GROUP_ID)
    return ask(
        request,
        message.group_id,
        lambda machine, token, now_ms: machine.sync(token, message, now_ms),
        _answered,
        _refused,
    )


def _answered(reply: SyncGroupResponse) -> SyncGroupResponse:
    return reply


def _refused(code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code, assignment=b"")
