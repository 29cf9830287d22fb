"""CreatePartitions v0-3. v2 flexible, v3 may be throttled (KIP-599)."""

from penstock.broker.route import Request
from penstock.model.errors import KafkaError
from penstock.protocol.api import ApiKey, stable_versions
from penstock.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

API = ApiKey.CREATE_PARTITIONS
VERSIONS = stable_versions(API)


async def handle(message: CreatePartitionsRequest, request: Request) -> CreatePartitionsResponse:
    try:
        response: CreatePartitionsResponse = await request.broker.controller.submit(message, request.version)
    except KafkaError as error:
        refused = [
            CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=str(error))
            for topic in message.topics
        ]
        return CreatePartitionsResponse(results=refused)
    return response
