"""ListTransactions v0-2. v1 by duration (KIP-994), v2 by pattern (KIP-1152)."""

import asyncio
from collections.abc import Awaitable
from itertools import chain, islice

from levada.broker.route import Request
from levada.model.error_codes import ErrorCode
from levada.model.regexes import InvalidRegex
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from levada.transactions import TransactionFilter

API = ApiKey.LIST_TRANSACTIONS
VERSIONS = stable_versions(API)

LARGE = 1_000
"""Transactions that are looked at in one turn of the loop."""


def handle(
    message: ListTransactionsRequest, request: Request
) -> ListTransactionsResponse | Awaitable[ListTransactionsResponse]:
    coordinator = request.broker.transactions
    if coordinator.is_loading:
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    try:
        chosen = TransactionFilter.of(
            message.state_filters,
            message.producer_id_filters,
            message.duration_filter,
            message.transactional_id_pattern,
        )
    except InvalidRegex:
        return _refused(ErrorCode.INVALID_REGULAR_EXPRESSION)
    now_ms = coordinator.now_ms()
    transactions = chain.from_iterable([machine.transactions.values() for machine in coordinator.machines()])
    response = ListTransactionsResponse(unknown_state_filters=chosen.unknown_states, transaction_states=[])
    found = response.transaction_states

    async def in_slices() -> ListTransactionsResponse:
        while some := list(islice(known, LARGE)):
            found.extend(chosen.listed(some, now_ms))
            await asyncio.sleep(0)
        return response

    if sum(len(machine.transactions) for machine in coordinator.machines()) <= LARGE:
        found += chosen.listed(transactions, now_ms)
        return response
    request.is_large = True
    # As they are now: what is told later must not be of a dictionary that has changed meanwhile.
    known = iter(list(transactions))
    return in_slices()


def _refused(code: ErrorCode) -> ListTransactionsResponse:
    return ListTransactionsResponse(error_code=code, unknown_state_filters=[], transaction_states=[])
