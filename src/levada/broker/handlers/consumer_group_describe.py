"""ConsumerGroupDescribe v0-1. v1 tells members of the classic protocol apart (KIP-1099)."""

from levada.broker.authorized import ALL_GROUP_OPERATIONS, NOT_ASKED
from levada.broker.route import Request
from levada.model.errors import ApiError
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

API = ApiKey.CONSUMER_GROUP_DESCRIBE
VERSIONS = stable_versions(API)


async def handle(message: ConsumerGroupDescribeRequest, request: Request) -> ConsumerGroupDescribeResponse:
    groups = [await _describe(group_id, request) for group_id in message.group_ids]
    for group in groups:
        is_told = message.include_authorized_operations and not group.error_code
        group.authorized_operations = ALL_GROUP_OPERATIONS if is_told else NOT_ASKED
    return ConsumerGroupDescribeResponse(groups=groups)


async def _describe(group_id: str, request: Request) -> DescribedGroup:
    try:
        group: DescribedGroup = await request.broker.groups.submit(
            group_id, lambda machine, token, now_ms: machine.consumer_describe(token, group_id, now_ms)
        )
    except ApiError as error:
        return DescribedGroup(
            error_code=error.code,
            group_id=group_id,
            group_state="",
            group_epoch=0,
            assignment_epoch=0,
            assignor_name="",
            members=[],
        )
    return group
