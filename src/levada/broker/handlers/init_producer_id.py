"""InitProducerId v0-5. v2 flexible, v3 epoch bumps (KIP-360), v4-5 error codes of transactions."""

from levada.broker.route import Request
from levada.model.error_codes import ErrorCode
from levada.model.errors import ApiError
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

API = ApiKey.INIT_PRODUCER_ID
VERSIONS = stable_versions(API)

NONE = -1


async def handle(message: InitProducerIdRequest, request: Request) -> InitProducerIdResponse:
    has_id, has_epoch = message.producer_id != NONE, message.producer_epoch != NONE
    if message.transactional_id == "" or has_id != has_epoch:
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_epoch=-1)
    try:
        if message.transactional_id is None:
            return InitProducerIdResponse(producer_id=await request.broker.producer_ids.allocate(), producer_epoch=0)
        await request.broker.producer_ids.reserve()
        reply: InitProducerIdResponse = await request.broker.transactions.submit(
            message.transactional_id,
            lambda machine, token, now_ms: machine.init_producer_id(token, message, request.version, now_ms),
        )
    except ApiError as error:
        return InitProducerIdResponse(error_code=error.code, producer_epoch=-1)
    return reply
