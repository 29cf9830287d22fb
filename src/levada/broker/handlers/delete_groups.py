"""DeleteGroups v0-2. v2 flexible."""

from levada.broker.route import Request
from levada.model.error_codes import ErrorCode
from levada.model.errors import ApiError
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

API = ApiKey.DELETE_GROUPS
VERSIONS = stable_versions(API)


async def handle(message: DeleteGroupsRequest, request: Request) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=await _delete(group_id, request))
            for group_id in dict.fromkeys(message.groups_names)
        ]
    )


async def _delete(group_id: str, request: Request) -> ErrorCode:
    try:
        code: ErrorCode = await request.broker.groups.submit(
            group_id, lambda machine, token, _: machine.delete_group(token, group_id)
        )
    except ApiError as error:
        return error.code
    return code
