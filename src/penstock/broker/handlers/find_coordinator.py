"""FindCoordinator v0-6. v1 transactions, v3 flexible, v4 many keys at once (KIP-699), v6 share groups (KIP-932)."""

from penstock.broker.route import Request
from penstock.model.errors import ErrorCode
from penstock.protocol.api import ApiKey, stable_versions
from penstock.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

API = ApiKey.FIND_COORDINATOR
VERSIONS = stable_versions(API)

GROUP, SHARE = 0, 2
MANY_KEYS_SINCE = 4
MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)
"""What clients show for INVALID_REQUEST."""


def handle(message: FindCoordinatorRequest, request: Request) -> FindCoordinatorResponse:
    if request.version >= MANY_KEYS_SINCE:
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
            error_message="" if key_type == SHARE and request.version >= MANY_KEYS_SINCE else MALFORMED,
        )
    identity = request.broker.identity
    return Coordinator(
        key=key, node_id=identity.node_id, host=identity.host, port=identity.port, error_message=_nothing(request)
    )


def _nothing(request: Request) -> str:
    """What Apache writes where there is no error."""
    return "" if request.version >= MANY_KEYS_SINCE else "NONE"
