"""DeleteTopics v1-6. v4 flexible, v5 error messages, v6 by topic id (KIP-516)."""

from levada.broker.route import Request
from levada.model.errors import ApiError
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.declare import NO_UUID
from levada.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

API = ApiKey.DELETE_TOPICS
VERSIONS = stable_versions(API)


async def handle(message: DeleteTopicsRequest, request: Request) -> DeleteTopicsResponse:
    try:
        response = await request.broker.controller.submit(message, request.version)
    except ApiError as error:
        wanted = message.topics or [DeleteTopicState(name=name, topic_id=NO_UUID) for name in message.topic_names]
        refused = [
            DeletableTopicResult(
                name=topic.name, topic_id=topic.topic_id, error_code=error.code, error_message=str(error)
            )
            for topic in wanted
        ]
        return DeleteTopicsResponse(responses=refused)
    return response
