"""IncrementalAlterConfigs v0-1. Set, delete, append, subtract (KIP-339); v1 flexible."""

from penstock.broker.route import Request
from penstock.model.errors import KafkaError
from penstock.protocol.api import ApiKey, stable_versions
from penstock.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

API = ApiKey.INCREMENTAL_ALTER_CONFIGS
VERSIONS = stable_versions(API)


async def handle(message: IncrementalAlterConfigsRequest, request: Request) -> IncrementalAlterConfigsResponse:
    try:
        response: IncrementalAlterConfigsResponse = await request.broker.controller.submit(message, request.version)
    except KafkaError as error:
        refused = [
            AlterConfigsResourceResponse(
                error_code=error.code,
                error_message=str(error),
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in message.resources
        ]
        return IncrementalAlterConfigsResponse(responses=refused)
    return response
