"""DescribeGroups v0-6. v3 operations (KIP-430), v4 static members, v5 flexible, v6 unknown groups are errors."""

from levada.broker.authorized import ALL_GROUP_OPERATIONS, NOT_ASKED
from levada.broker.route import Request
from levada.model.error_codes import ErrorCode
from levada.model.errors import ApiError
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

API = ApiKey.DESCRIBE_GROUPS
VERSIONS = stable_versions(API)

UNKNOWN_IS_ERROR_SINCE = 6


async def handle(message: DescribeGroupsRequest, request: Request) -> DescribeGroupsResponse:
    groups = [await _describe(group_id, request) for group_id in message.groups]
    for group in groups:
        is_told = message.include_authorized_operations and not group.error_code
        group.authorized_operations = ALL_GROUP_OPERATIONS if is_told else NOT_ASKED
    return DescribeGroupsResponse(groups=groups)


async def _describe(group_id: str, request: Request) -> DescribedGroup:
    try:
        group: DescribedGroup = await request.broker.groups.submit(
            group_id, lambda machine, token, _: machine.describe(token, group_id)
        )
    except ApiError as error:
        return DescribedGroup(
            error_code=error.code, group_id=group_id, group_state="", protocol_type="", protocol_data="", members=[]
        )
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND and request.version < UNKNOWN_IS_ERROR_SINCE:
        # Clients before that take a dead group for one that is not there.
        group.error_code, group.error_message = ErrorCode.NONE, None
    return group
