"""UpdateFeatures v0-2. v1 may validate alone and names the kind of a downgrade, v2 fails as a whole."""

from levada.broker.route import Request
from levada.model.errors import ApiError
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

API = ApiKey.UPDATE_FEATURES
VERSIONS = stable_versions(API)


async def handle(message: UpdateFeaturesRequest, request: Request) -> UpdateFeaturesResponse:
    try:
        return await request.broker.controller.submit(message, request.version)
    except ApiError as error:
        return UpdateFeaturesResponse(error_code=error.code, error_message=str(error))
