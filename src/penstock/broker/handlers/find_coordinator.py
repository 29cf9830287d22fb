"""FindCoordinator v0-6. v1 transactions, v3 flexible, v4 many keys at once (KIP-699), v6 share groups (KIP-932)."""

from penstock.broker.route import Request
from penstock.model.errors import ErrorCode
from penstock.protocol.api import ApiKey, stable_versions
from penstock.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

API = ApiKey.FIND_COORDINATOR
VERSIONS = stable_versions(API)

GROUP = 0


def handle(message: FindCoordinatorRequest, request: Request) -> FindCoordinatorResponse:
    if request.version >= 4:
        found = [_find(key, message.key_type, request) for key in message.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    one = _find(message.key, message.key_type, request)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _find(key: str, key_type: int, request: Request) -> Coordinator:
    if key_type != GROUP:
        return Coordinator(
            key=key,
            node_id=-1,
            host="",
            port=-1,
            error_code=ErrorCode.INVALID_REQUEST,
            error_message="This broker coordinates consumer groups only.",
        )
    identity = request.broker.identity
    return Coordinator(key=key, node_id=identity.node_id, host=identity.host, port=identity.port, error_message=None)
