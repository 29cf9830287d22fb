"""JoinGroup v0-9. v1 rebalance timeout (KIP-62), v4 member id first (KIP-394), v5 static members, v9 no assignment."""

from collections.abc import Awaitable

from penstock.broker.group_requests import ask
from penstock.broker.route import Request
from penstock.groups import Joiner
from penstock.model.errors import ErrorCode
from penstock.protocol.api import ApiKey, stable_versions
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

API = ApiKey.JOIN_GROUP
VERSIONS = stable_versions(API)


def handle(message: JoinGroupRequest, request: Request) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    if not message.group_id:
        return _refused(message, ErrorCode.INVALID_GROUP_ID)
    if request.version == 0:
        message.rebalance_timeout_ms = message.session_timeout_ms
    joiner = Joiner(
        client_id=request.client_id or "",
        client_host=request.client_host,
        needs_member_id_first=request.version >= 4,
        can_skip_assignment=request.version >= 9,
    )
    return ask(
        request,
        message.group_id,
        lambda machine, token, now_ms: machine.join(token, message, joiner, now_ms),
        lambda reply: reply,
        lambda code: _refused(message, code),
    )


def _refused(message: JoinGroupRequest, code: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, protocol_name="", leader="", member_id=message.member_id, members=[])
