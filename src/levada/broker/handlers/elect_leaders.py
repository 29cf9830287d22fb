"""ElectLeaders v0-2. v1 unclean elections (KIP-460), v2 flexible."""

from levada.broker.route import Request
from levada.model.errors import ApiError
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

API = ApiKey.ELECT_LEADERS
VERSIONS = stable_versions(API)


async def handle(message: ElectLeadersRequest, request: Request) -> ElectLeadersResponse:
    try:
        response = await request.broker.controller.submit(message, request.version)
    except ApiError as error:
        return ElectLeadersResponse(error_code=error.code, replica_election_results=[])
    return response
