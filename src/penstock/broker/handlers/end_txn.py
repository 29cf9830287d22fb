"""EndTxn v0-5. v2 producers learn that they are fenced (KIP-588), v3 flexible, v5 a new epoch each time (KIP-890)."""

from penstock.broker.route import Request
from penstock.model.errors import KafkaError
from penstock.protocol.api import ApiKey, stable_versions
from penstock.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

API = ApiKey.END_TXN
VERSIONS = stable_versions(API)


async def handle(message: EndTxnRequest, request: Request) -> EndTxnResponse:
    try:
        # Only an exhausted epoch needs one, but who ends a transaction must not be told to come again for it.
        await request.broker.producer_ids.reserve()
        reply: EndTxnResponse = await request.broker.transactions.submit(
            message.transactional_id,
            lambda machine, token, now_ms: machine.end(token, message, request.version, now_ms),
        )
    except KafkaError as error:
        return EndTxnResponse(error_code=error.code)
    return reply
