"""ApiVersions v0-4. v3 is flexible and names the client's software (KIP-511); v4 lists features whose minimum is 0."""

import re
from collections.abc import Iterable

from levada.broker.features import FEATURES
from levada.broker.route import Request, Route
from levada.model.error_codes import ErrorCode
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

API = ApiKey.API_VERSIONS
VERSIONS = stable_versions(API)

SOFTWARE_SINCE = 3
"""Clients name their software and its version (KIP-511)."""
ZERO_MINIMUM_SINCE = 4
OWN_SOFTWARE = "levada"

_LEGAL_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(message: ApiVersionsRequest, request: Request) -> ApiVersionsResponse:
    if request.version >= SOFTWARE_SINCE and not _names_its_software(message):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
    image = request.broker.image
    return ApiVersionsResponse(
        api_keys=advertised(
            route
            for route in request.routes.values()
            if not route.is_of_brokers
            and (not route.api_key.is_private or message.client_software_name == OWN_SOFTWARE)
        ),
        supported_features=[
            SupportedFeatureKey(
                name=feature.name,
                min_version=feature.min_supported_version,
                max_version=feature.max_supported_version,
            )
            for feature in FEATURES
            # Clients of older versions take a minimum of 0 for a broken answer.
            if request.version >= ZERO_MINIMUM_SINCE or feature.min_supported_version > 0
        ],
        finalized_features_epoch=image.offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in image.features.items()
        ],
    )


def advertised(routes: Iterable[Route]) -> list[ApiVersion]:
    return [
        ApiVersion(api_key=route.api_key, min_version=route.advertised[0], max_version=route.advertised[-1])
        for route in sorted(routes, key=lambda route: route.api_key)
    ]


def _names_its_software(message: ApiVersionsRequest) -> bool:
    name, version = message.client_software_name, message.client_software_version
    return bool(_LEGAL_SOFTWARE.fullmatch(name) and _LEGAL_SOFTWARE.fullmatch(version))
