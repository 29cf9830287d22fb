"""LeaveGroup v0-5. v3 many members at once, static ones by instance (KIP-345), v4 flexible, v5 reasons (KIP-800)."""

from penstock.broker.route import Request
from penstock.model.errors import ErrorCode
from penstock.protocol.api import ApiKey, stable_versions
from penstock.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

API = ApiKey.LEAVE_GROUP
VERSIONS = stable_versions(API)


def handle(message: LeaveGroupRequest, request: Request) -> LeaveGroupResponse:
    if not message.group_id:
        return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    if request.version < 3:
        [code] = request.broker.groups.leave(message.group_id, [MemberIdentity(member_id=message.member_id)])
        return LeaveGroupResponse(error_code=code)
    codes = request.broker.groups.leave(message.group_id, message.members)
    return LeaveGroupResponse(
        members=[
            MemberResponse(member_id=leaving.member_id, group_instance_id=leaving.group_instance_id, error_code=code)
            for leaving, code in zip(message.members, codes)
        ]
    )
