"""EndTxn v0-5. v2 producers learn that they are fenced (KIP-588), v3 flexible, v5 a new epoch each time (KIP-890)."""

from collections.abc import Awaitable

from levada.broker.coordinator_call import call_coordinator
from levada.broker.route import Request
from levada.model.error_codes import ErrorCode
from levada.model.errors import ApiError
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

API = ApiKey.END_TXN
VERSIONS = stable_versions(API)


def handle(message: EndTxnRequest, request: Request) -> EndTxnResponse | Awaitable[EndTxnResponse]:
    # Only an exhausted epoch needs a producer id, but a producer that ends a transaction must not be told to come again
    # for it.
    if request.broker.producer_ids.has_one:
        return _end(message, request)
    return _end_with_id(message, request)


async def _end_with_id(message: EndTxnRequest, request: Request) -> EndTxnResponse:
    try:
        await request.broker.producer_ids.reserve()
    except ApiError as error:
        return _refused(error.code)
    ended = _end(message, request)
    return await ended if isinstance(ended, Awaitable) else ended


def _end(message: EndTxnRequest, request: Request) -> EndTxnResponse | Awaitable[EndTxnResponse]:
    return call_coordinator(
        request.broker.transactions,
        message.transactional_id,
        lambda machine, token, now_ms: machine.end(token, message, request.version, now_ms),
        _answered,
        _refused,
    )


def _answered(response: EndTxnResponse) -> EndTxnResponse:
    return response


def _refused(code: ErrorCode) -> EndTxnResponse:
    return EndTxnResponse(error_code=code)
