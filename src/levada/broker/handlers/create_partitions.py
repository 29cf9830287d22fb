"""CreatePartitions v0-3. v2 flexible, v3 may be throttled (KIP-599)."""

from levada.broker.route import Request
from levada.model.errors import ApiError
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

API = ApiKey.CREATE_PARTITIONS
VERSIONS = stable_versions(API)


async def handle(message: CreatePartitionsRequest, request: Request) -> CreatePartitionsResponse:
    try:
        response = await request.broker.controller.submit(message, request.version)
    except ApiError as error:
        refused = [
            CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=str(error))
            for topic in message.topics
        ]
        return CreatePartitionsResponse(results=refused)
    return response
