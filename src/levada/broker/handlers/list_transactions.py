"""ListTransactions v0-2. v1 by duration (KIP-994), v2 by pattern (KIP-1152)."""

from levada.broker.route import Request
from levada.model.errors import ErrorCode
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from levada.transactions.describing import listed

API = ApiKey.LIST_TRANSACTIONS
VERSIONS = stable_versions(API)


def handle(message: ListTransactionsRequest, request: Request) -> ListTransactionsResponse:
    coordinator = request.broker.transactions
    if coordinator.is_loading:
        code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ListTransactionsResponse(error_code=code, unknown_state_filters=[], transaction_states=[])
    filters = (
        message.state_filters,
        message.producer_id_filters,
        message.duration_filter,
        message.transactional_id_pattern,
        coordinator.now_ms(),
    )
    # A broker that knows of no transaction looks at the filters all the same.
    whole = listed((), *filters)
    for machine in coordinator.machines():
        whole.transaction_states += machine.listing(*filters).transaction_states
    return whole
