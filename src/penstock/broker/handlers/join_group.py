"""JoinGroup v0-9. v1 rebalance timeout (KIP-62), v4 member id first (KIP-394), v5 static members, v9 no assignment."""

from collections.abc import Awaitable

from penstock.broker.route import Request
from penstock.groups import Joiner
from penstock.protocol.api import ApiKey, stable_versions
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

API = ApiKey.JOIN_GROUP
VERSIONS = stable_versions(API)


def handle(message: JoinGroupRequest, request: Request) -> Awaitable[JoinGroupResponse]:
    if request.version == 0:
        message.rebalance_timeout_ms = message.session_timeout_ms
    joiner = Joiner(
        client_id=request.client_id or "",
        needs_member_id_first=request.version >= 4,
        can_skip_assignment=request.version >= 9,
    )
    return request.broker.groups.join(message, joiner)
