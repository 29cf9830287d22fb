"""AlterConfigs v0-2. Replaces everything that was set; v2 flexible."""

from levada.broker.route import Request
from levada.model.errors import ApiError
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

API = ApiKey.ALTER_CONFIGS
VERSIONS = stable_versions(API)


async def handle(message: AlterConfigsRequest, request: Request) -> AlterConfigsResponse:
    try:
        response = await request.broker.controller.submit(message, request.version)
    except ApiError as error:
        refused = [
            AlterConfigsResourceResponse(
                error_code=error.code,
                error_message=str(error),
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in message.resources
        ]
        return AlterConfigsResponse(responses=refused)
    return response
