"""LeaveGroup v0-5. v3 many members at once, static ones by instance (KIP-345), v4 flexible, v5 reasons (KIP-800)."""

from collections.abc import Awaitable

from levada.broker.group_requests import ask
from levada.broker.route import Request
from levada.model.error_codes import ErrorCode
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.leave_group import (
    MANY_MEMBERS_SINCE,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

API = ApiKey.LEAVE_GROUP
VERSIONS = stable_versions(API)


def handle(message: LeaveGroupRequest, request: Request) -> LeaveGroupResponse | Awaitable[LeaveGroupResponse]:
    if not message.group_id:
        return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    leaving = (
        message.members if request.version >= MANY_MEMBERS_SINCE else [MemberIdentity(member_id=message.member_id)]
    )

    def answer(codes: list[ErrorCode]) -> LeaveGroupResponse:
        return _answer(leaving, codes, request.version)

    return ask(
        request,
        message.group_id,
        lambda machine, token, now_ms: machine.leave(token, message.group_id, leaving, now_ms),
        answer,
        lambda code: LeaveGroupResponse(error_code=code),
    )


def _answer(leaving: list[MemberIdentity], codes: list[ErrorCode], version: int) -> LeaveGroupResponse:
    if version < MANY_MEMBERS_SINCE:
        return LeaveGroupResponse(error_code=codes[0])
    return LeaveGroupResponse(
        members=[
            MemberResponse(member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=code)
            for one, code in zip(leaving, codes)
        ]
    )
