"""FindCoordinator v0-6. v1 transactions, v3 flexible, v4 many keys at once (KIP-699), v6 share groups (KIP-932)."""

from levada.broker.internal_topics import make_internal_topic
from levada.broker.route import Request
from levada.model.error_codes import ErrorCode
from levada.model.errors import ApiError, CoordinatorNotAvailable
from levada.model.hashes import coordinator_partition
from levada.model.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

API = ApiKey.FIND_COORDINATOR
VERSIONS = stable_versions(API)

GROUP, TRANSACTION, SHARE = 0, 1, 2
TOPICS = {GROUP: CONSUMER_OFFSETS, TRANSACTION: TRANSACTION_STATE}
MANY_KEYS_SINCE = 4
MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)
"""What clients show for INVALID_REQUEST."""
NOT_AVAILABLE = "The coordinator is not available."


async def handle(message: FindCoordinatorRequest, request: Request) -> FindCoordinatorResponse:
    topic = TOPICS.get(message.key_type)
    if topic is not None and topic not in request.broker.image.topics:
        try:
            await make_internal_topic(topic, request.broker)
        except ApiError:
            # The controller cannot make it just now; clients ask again.
            return _answer(message, request, is_available=False)
    return _answer(message, request, is_available=True)


def _answer(message: FindCoordinatorRequest, request: Request, *, is_available: bool) -> FindCoordinatorResponse:
    if request.version >= MANY_KEYS_SINCE:
        found = [_find(key, message.key_type, request, is_available) for key in message.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    one = _find(message.key, message.key_type, request, is_available)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _find(key: str, key_type: int, request: Request, is_available: bool) -> Coordinator:
    topic = TOPICS.get(key_type)
    if topic is None:
        is_silent = key_type == SHARE and request.version >= MANY_KEYS_SINCE
        return _no_coordinator(key, ErrorCode.INVALID_REQUEST, "" if is_silent else MALFORMED)
    try:
        if not is_available:
            raise CoordinatorNotAvailable(NOT_AVAILABLE)
        node_id, host, port = _leader_for(key, topic, request)
    except CoordinatorNotAvailable as error:
        return _no_coordinator(key, error.code, str(error))
    # What Apache writes where there is no error.
    nothing = "" if request.version >= MANY_KEYS_SINCE else "NONE"
    return Coordinator(key=key, node_id=node_id, host=host, port=port, error_message=nothing)


def _leader_for(key: str, topic: str, request: Request) -> tuple[int, str, int]:
    """The leader of the partition that a group or a transactional id hashes to coordinates it."""
    broker = request.broker
    partitions = broker.image.topics[topic].partitions
    leader = partitions[coordinator_partition(key, len(partitions))].leader
    endpoint = broker.image.live_endpoint(leader, request.listener)
    if endpoint is None:
        raise CoordinatorNotAvailable(NOT_AVAILABLE)
    return leader, endpoint.host, endpoint.port


def _no_coordinator(key: str, code: ErrorCode, text: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=text)
