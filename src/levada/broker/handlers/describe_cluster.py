"""DescribeCluster v0-2. v1 brokers or controllers (KIP-919), v2 fenced brokers too (KIP-1073)."""

from levada.broker.authorized import ALL_CLUSTER_OPERATIONS, NOT_ASKED
from levada.broker.route import Request
from levada.model.error_codes import ErrorCode
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

API = ApiKey.DESCRIBE_CLUSTER
VERSIONS = stable_versions(API)

BROKERS, CONTROLLERS = 1, 2


def handle(message: DescribeClusterRequest, request: Request) -> DescribeClusterResponse:
    broker = request.broker
    response = DescribeClusterResponse(cluster_id="", brokers=[])
    if message.endpoint_type != BROKERS:
        is_known = message.endpoint_type == CONTROLLERS
        response.error_code = ErrorCode.MISMATCHED_ENDPOINT_TYPE if is_known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        response.error_message = (
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
            if is_known
            else f"Unsupported endpoint type {message.endpoint_type}"
        )
        return response
    response.cluster_id = broker.identity.cluster_id
    response.controller_id = broker.controller.controller_id
    for one in broker.image.brokers.values():
        endpoint = one.endpoint(request.listener)
        if endpoint is not None and (not one.is_fenced or message.include_fenced_brokers):
            response.brokers.append(
                DescribeClusterBroker(
                    broker_id=one.broker_id,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=one.rack,
                    is_fenced=one.is_fenced,
                )
            )
    asked = message.include_cluster_authorized_operations
    response.cluster_authorized_operations = ALL_CLUSTER_OPERATIONS if asked else NOT_ASKED
    return response
