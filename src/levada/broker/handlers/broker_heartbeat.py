"""BrokerHeartbeat v0-2. Of brokers. v1 names failed directories (KIP-858), v2 cordoned ones (KIP-1066)."""

from levada.broker.route import Request
from levada.model.errors import ApiError
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

API = ApiKey.BROKER_HEARTBEAT
VERSIONS = stable_versions(API)
IS_OF_BROKERS = True


async def handle(message: BrokerHeartbeatRequest, request: Request) -> BrokerHeartbeatResponse:
    try:
        return await request.broker.controller.decide(message, request.version)
    except ApiError as error:
        return BrokerHeartbeatResponse(error_code=error.code, should_shut_down=False)
