"""DescribeTransactions v0."""

from levada.broker.route import Request
from levada.model.errors import ApiError
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)

API = ApiKey.DESCRIBE_TRANSACTIONS
VERSIONS = stable_versions(API)


async def handle(message: DescribeTransactionsRequest, request: Request) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[await _describe(one, request) for one in message.transactional_ids]
    )


async def _describe(transactional_id: str, request: Request) -> TransactionState:
    try:
        state: TransactionState = await request.broker.transactions.submit(
            transactional_id, lambda machine, token, _: machine.describe(token, transactional_id)
        )
    except ApiError as error:
        return TransactionState(
            error_code=error.code,
            transactional_id=transactional_id,
            transaction_state="",
            transaction_timeout_ms=0,
            transaction_start_time_ms=0,
            producer_id=0,
            producer_epoch=0,
            topics=[],
        )
    return state
