"""ApiVersions (api key 18), every version."""

from dataclasses import field
from typing import Annotated

from levada.protocol.declare import IGNORABLE, Bool, Int16, Int32, Int64, Request, Since, String, Tag, message, struct


@message(api_key=18, versions="0-4", flexible="3+")
class ApiVersionsRequest(Request["ApiVersionsResponse"]):
    client_software_name: Annotated[String, Since(3), IGNORABLE] = ""
    client_software_version: Annotated[String, Since(3), IGNORABLE] = ""


@struct
class ApiVersion:
    api_key: Int16
    min_version: Int16
    max_version: Int16


@struct
class SupportedFeatureKey:
    name: String
    min_version: Int16
    max_version: Int16


@struct
class FinalizedFeatureKey:
    name: String
    max_version_level: Int16
    min_version_level: Int16


@message(api_key=18, versions="0-4", flexible="3+")
class ApiVersionsResponse:
    error_code: Int16 = 0
    api_keys: list[ApiVersion]
    throttle_time_ms: Annotated[Int32, Since(1), IGNORABLE] = 0
    supported_features: Annotated[list[SupportedFeatureKey], Since(3), Tag(0), IGNORABLE] = field(default_factory=list)
    finalized_features_epoch: Annotated[Int64, Since(3), Tag(1), IGNORABLE] = -1
    finalized_features: Annotated[list[FinalizedFeatureKey], Since(3), Tag(2), IGNORABLE] = field(default_factory=list)
    zk_migration_ready: Annotated[Bool, Since(3), Tag(3), IGNORABLE] = False
