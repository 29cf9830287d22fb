"""Levels of the cluster's features: what all brokers agree to do, changed by an operator (KIP-584)."""

from collections import Counter

from levada.controller.decision import Context, ControllerDecision
from levada.metadata.image import Image
from levada.metadata.records import FeatureLevelRecord
from levada.model.error_codes import ErrorCode
from levada.model.errors import ApiError, InvalidRequest
from levada.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

METADATA_VERSION = "metadata.version"
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
FAILS_AS_A_WHOLE_SINCE = 2
"""The version whose answer has no results of its own for each feature."""


class InvalidUpdate(ApiError):
    code = ErrorCode.INVALID_UPDATE_VERSION


def update(
    image: Image, request: UpdateFeaturesRequest, context: Context
) -> ControllerDecision[UpdateFeaturesResponse]:
    """All of them, or none."""
    named = Counter(one.feature for one in request.feature_updates)
    records, results = [], []
    refusal: ApiError | None = None
    for one in request.feature_updates:
        try:
            if named[one.feature] > 1:
                raise InvalidRequest(f"The feature {one.feature} is named {named[one.feature]} times.")
            _check(image, one)
        except ApiError as error:
            refusal = refusal or error
            results.append(UpdatableFeatureResult(feature=one.feature, error_code=error.code, error_message=str(error)))
        else:
            results.append(UpdatableFeatureResult(feature=one.feature, error_message=None))
            if image.features.get(one.feature, 0) != one.max_version_level:
                records.append(FeatureLevelRecord(name=one.feature, feature_level=one.max_version_level))
    if refusal is None:
        made = [] if request.validate_only else records
        return ControllerDecision(UpdateFeaturesResponse(error_message=None, results=results), made)
    if context.version >= FAILS_AS_A_WHOLE_SINCE:
        text = f"The update failed for all features since the following feature had an error: {refusal}"
        return ControllerDecision(UpdateFeaturesResponse(error_code=refusal.code, error_message=text))
    return ControllerDecision(UpdateFeaturesResponse(error_message=None, results=results))


def _check(image: Image, wanted: FeatureUpdateKey) -> None:
    name, level = wanted.feature, wanted.max_version_level
    current = image.features.get(name, 0)
    if level < 0:
        raise InvalidUpdate(f"Invalid update version {level} for feature {name}. A feature's level is not negative.")
    for broker in sorted(image.brokers.values(), key=lambda one: one.broker_id):
        known = next((one for one in broker.features if one.name == name), None)
        if known is None:
            raise InvalidUpdate(
                f"Invalid update version {level} for feature {name}. Broker {broker.broker_id} does not support this"
                " feature."
            )
        if not known.min_supported_version <= level <= known.max_supported_version:
            raise InvalidUpdate(
                f"Invalid update version {level} for feature {name}. Broker {broker.broker_id} only supports versions"
                f" {known.min_supported_version}-{known.max_supported_version}"
            )
    if level >= current:
        return
    if not (wanted.allow_downgrade or wanted.upgrade_type in (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE)):
        raise InvalidUpdate(
            f"Invalid update version {level} for feature {name}. Can't downgrade the version of this feature without"
            " setting the upgrade type to either safe or unsafe downgrade."
        )
    if name == METADATA_VERSION:
        raise InvalidUpdate(
            f"Invalid update version {level} for feature {name}. The metadata log has records of level {current}, which"
            " an older level does not have."
        )
