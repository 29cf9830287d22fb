"""BrokerRegistration v0-4. Of brokers. v2 directories (KIP-858), v3 the epoch of a clean stop (KIP-966), v4 levels."""

from levada.broker.route import Request
from levada.model.errors import ApiError
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

API = ApiKey.BROKER_REGISTRATION
VERSIONS = stable_versions(API)
IS_OF_BROKERS = True


async def handle(message: BrokerRegistrationRequest, request: Request) -> BrokerRegistrationResponse:
    try:
        return await request.broker.controller.decide(message, request.version)
    except ApiError as error:
        return BrokerRegistrationResponse(error_code=error.code)
