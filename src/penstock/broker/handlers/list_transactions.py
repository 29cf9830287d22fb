"""ListTransactions v0-2. v1 by duration (KIP-994), v2 by pattern (KIP-1152)."""

from penstock.broker.route import Request
from penstock.model.errors import ErrorCode
from penstock.protocol.api import ApiKey, stable_versions
from penstock.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

API = ApiKey.LIST_TRANSACTIONS
VERSIONS = stable_versions(API)


def handle(message: ListTransactionsRequest, request: Request) -> ListTransactionsResponse:
    coordinator = request.broker.transactions
    if coordinator.is_loading:
        code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ListTransactionsResponse(error_code=code, unknown_state_filters=[], transaction_states=[])
    whole = ListTransactionsResponse(unknown_state_filters=[], transaction_states=[])
    for machine in coordinator.machines():
        part = machine.listing(
            message.state_filters,
            message.producer_id_filters,
            message.duration_filter,
            message.transactional_id_pattern,
            coordinator.now_ms(),
        )
        whole.error_code, whole.unknown_state_filters = part.error_code, part.unknown_state_filters
        whole.transaction_states += part.transaction_states
    return whole
