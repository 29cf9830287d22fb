"""CreateTopics v2-7. v4 counts may be left to the broker (KIP-464), v5 flexible and tells settings, v7 tells the id."""

from levada.broker.config_entries import topic_entries
from levada.broker.route import Request
from levada.model.errors import ApiError
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.create_topics import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

API = ApiKey.CREATE_TOPICS
VERSIONS = stable_versions(API)

TELLS_SETTINGS_SINCE = 5


async def handle(message: CreateTopicsRequest, request: Request) -> CreateTopicsResponse:
    try:
        response = await request.broker.controller.submit(message, request.version)
    except ApiError as error:
        refused = [
            CreatableTopicResult(name=topic.name, error_code=error.code, error_message=str(error), configs=[])
            for topic in message.topics
        ]
        return CreateTopicsResponse(topics=refused)
    if request.version >= TELLS_SETTINGS_SINCE:
        given = {topic.name: {one.name: one.value or "" for one in topic.configs} for topic in message.topics}
        # Of thousands of topics most have the same settings.
        told: dict[frozenset[tuple[str, str]], list[CreatableTopicConfigs]] = {}
        for result in response.topics:
            if not result.error_code:
                overrides = given[result.name]
                key = frozenset(overrides.items())
                if key not in told:
                    told[key] = _settings(request, overrides)
                result.configs = told[key]
    return response


def _settings(request: Request, overrides: dict[str, str]) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=entry.name,
            # As it was given: Apache's controller does not write it anew, as its broker does.
            value=overrides.get(entry.name, entry.value),
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.is_sensitive,
        )
        for entry in topic_entries(request.broker.config, overrides)
    ]
