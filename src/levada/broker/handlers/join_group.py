"""JoinGroup v0-9. v1 rebalance timeout (KIP-62), v4 member id first (KIP-394), v5 static members, v9 no assignment."""

from collections.abc import Awaitable

from levada.broker.group_requests import ask
from levada.broker.route import Request
from levada.groups import JoiningClient
from levada.model.error_codes import ErrorCode
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

API = ApiKey.JOIN_GROUP
VERSIONS = stable_versions(API)

NULL_PROTOCOL_SINCE = 7


def handle(message: JoinGroupRequest, request: Request) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    if not message.group_id:
        return _refused(message, request, ErrorCode.INVALID_GROUP_ID)
    if request.version == 0:
        message.rebalance_timeout_ms = message.session_timeout_ms
    joiner = JoiningClient(request.client_id or "", request.client_host, request.version)

    def answer(reply: JoinGroupResponse) -> JoinGroupResponse:
        return _shaped(reply, request.version)

    return ask(
        request,
        message.group_id,
        lambda machine, token, now_ms: machine.join(token, message, joiner, now_ms),
        answer,
        lambda code: _refused(message, request, code),
    )


def _refused(message: JoinGroupRequest, request: Request, code: ErrorCode) -> JoinGroupResponse:
    refusal = JoinGroupResponse(error_code=code, protocol_name="", leader="", member_id=message.member_id, members=[])
    return _shaped(refusal, request.version)


def _shaped(reply: JoinGroupResponse, version: int) -> JoinGroupResponse:
    """A refusal names no protocol, as soon as its version can say so."""
    if reply.error_code and version >= NULL_PROTOCOL_SINCE:
        reply.protocol_name = None
    return reply
