"""AllocateProducerIds v0. Of brokers: a block of ids that no other broker gives out (KIP-730)."""

from levada.broker.route import Request
from levada.model.errors import ApiError
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

API = ApiKey.ALLOCATE_PRODUCER_IDS
VERSIONS = stable_versions(API)
IS_OF_BROKERS = True


async def handle(message: AllocateProducerIdsRequest, request: Request) -> AllocateProducerIdsResponse:
    try:
        return await request.broker.controller.decide(message, request.version)
    except ApiError as error:
        return AllocateProducerIdsResponse(error_code=error.code, producer_id_start=0, producer_id_len=0)
