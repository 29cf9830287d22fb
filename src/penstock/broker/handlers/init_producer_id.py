"""InitProducerId v0-5. v2 flexible, v3 epoch bumps (KIP-360), v4-5 error codes of transactions."""

from penstock.broker.route import Request
from penstock.model.errors import ErrorCode, KafkaError
from penstock.protocol.api import ApiKey, stable_versions
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

API = ApiKey.INIT_PRODUCER_ID
VERSIONS = stable_versions(API)

NONE = -1


async def handle(message: InitProducerIdRequest, request: Request) -> InitProducerIdResponse:
    has_id, has_epoch = message.producer_id != NONE, message.producer_epoch != NONE
    if message.transactional_id == "" or has_id != has_epoch:
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_epoch=-1)
    if message.transactional_id is not None:
        # No transaction coordinator is here yet; this code ends the attempt instead of repeating it forever.
        return InitProducerIdResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, producer_epoch=-1)
    try:
        producer_id = await request.broker.producer_ids.allocate()
    except KafkaError as error:
        return InitProducerIdResponse(error_code=error.code, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
