"""ListConfigResources v0-1. v0 knew client metrics only (KIP-714), v1 every kind of resource (KIP-1142)."""

from levada.broker.broker import Broker
from levada.broker.route import Request
from levada.metadata.image import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from levada.model.error_codes import ErrorCode
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

API = ApiKey.LIST_CONFIG_RESOURCES
VERSIONS = stable_versions(API)

KINDS = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


def handle(message: ListConfigResourcesRequest, request: Request) -> ListConfigResourcesResponse:
    kinds = dict.fromkeys(message.resource_types)
    if request.version == 0:
        kinds = {CLIENT_METRICS: None}
    if any(kind not in KINDS for kind in kinds):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=[])
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in kinds or KINDS
            for name in _names(request.broker, kind)
        ]
    )


def _names(broker: Broker, kind: int) -> list[str]:
    image = broker.image
    if kind == TOPIC:
        return list(image.topics)
    if kind in (BROKER, BROKER_LOGGER):
        return [str(one.broker_id) for one in image.live_brokers()]
    # A group is listed for its configuration, not for its members.
    return [resource.name for resource in image.configs if resource.type == kind]
