"""AlterPartitionReassignments v0-1. v1 may forbid that the replication factor changes (KIP-860)."""

from levada.broker.route import Request
from levada.model.errors import ApiError
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)

API = ApiKey.ALTER_PARTITION_REASSIGNMENTS
VERSIONS = stable_versions(API)


async def handle(message: AlterPartitionReassignmentsRequest, request: Request) -> AlterPartitionReassignmentsResponse:
    try:
        response = await request.broker.controller.submit(message, request.version)
    except ApiError as error:
        return AlterPartitionReassignmentsResponse(error_code=error.code, error_message=str(error), responses=[])
    return response
