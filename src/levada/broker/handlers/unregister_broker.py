"""UnregisterBroker v0. Forgets a broker that is gone."""

from levada.broker.route import Request
from levada.model.errors import ApiError
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

API = ApiKey.UNREGISTER_BROKER
VERSIONS = stable_versions(API)


async def handle(message: UnregisterBrokerRequest, request: Request) -> UnregisterBrokerResponse:
    try:
        response = await request.broker.controller.submit(message, request.version)
    except ApiError as error:
        return UnregisterBrokerResponse(error_code=error.code, error_message=str(error))
    return response
