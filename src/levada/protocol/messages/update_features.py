"""UpdateFeatures (api key 57), every version."""

from dataclasses import field
from typing import Annotated

from levada.protocol.declare import IGNORABLE, Bool, Int8, Int16, Int32, Request, Since, String, Until, message, struct


@struct
class FeatureUpdateKey:
    feature: String
    max_version_level: Int16
    allow_downgrade: Annotated[Bool, Until(0)] = False
    upgrade_type: Annotated[Int8, Since(1)] = 1


@message(api_key=57, versions="0-2", flexible="0+")
class UpdateFeaturesRequest(Request["UpdateFeaturesResponse"]):
    timeout_ms: Int32 = 60000
    feature_updates: list[FeatureUpdateKey]
    validate_only: Annotated[Bool, Since(1)] = False


@struct
class UpdatableFeatureResult:
    feature: String
    error_code: Int16 = 0
    error_message: String | None


@message(api_key=57, versions="0-2", flexible="0+")
class UpdateFeaturesResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None
    results: Annotated[list[UpdatableFeatureResult], Until(1), IGNORABLE] = field(default_factory=list)
