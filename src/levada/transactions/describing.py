"""DescribeTransactions and ListTransactions: what operators are told of transactions."""

from collections.abc import Iterable, Sequence

from levada.model.errors import ErrorCode
from levada.model.regexes import InvalidRegex, compiled
from levada.protocol.messages import describe_transactions, list_transactions
from levada.protocol.messages.list_transactions import ListTransactionsResponse
from levada.transactions.states import BY_TITLE, TransactionState
from levada.transactions.transaction import Transaction, by_topic

ANY_DURATION = -1


def described(transactional_id: str, known: Transaction | None) -> describe_transactions.TransactionState:
    if not transactional_id:
        return _unknown(transactional_id, ErrorCode.INVALID_REQUEST)
    if known is None or known.state is TransactionState.DEAD:
        return _unknown(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    return describe_transactions.TransactionState(
        transactional_id=transactional_id,
        transaction_state=known.state.title,
        transaction_timeout_ms=known.timeout_ms,
        transaction_start_time_ms=known.started_ms,
        producer_id=known.producer_id,
        producer_epoch=known.producer_epoch,
        topics=[
            describe_transactions.TopicData(topic=topic, partitions=partitions)
            for topic, partitions in by_topic(known.partitions)
        ],
    )


def listed(
    transactions: Iterable[Transaction],
    states: Sequence[str],
    producer_ids: Sequence[int],
    duration_ms: int,
    id_pattern: str | None,
    now_ms: int,
) -> ListTransactionsResponse:
    """Those that pass all filters; a filter that names nothing lets everything pass."""
    unknown = [title for title in dict.fromkeys(states) if title not in BY_TITLE]
    try:
        pattern = compiled(id_pattern) if id_pattern else None
    except InvalidRegex:
        return ListTransactionsResponse(
            error_code=ErrorCode.INVALID_REGULAR_EXPRESSION, unknown_state_filters=[], transaction_states=[]
        )
    wanted_ids, wanted_states = frozenset(producer_ids), frozenset(states)
    return ListTransactionsResponse(
        unknown_state_filters=unknown,
        transaction_states=[
            list_transactions.TransactionState(
                transactional_id=one.transactional_id,
                producer_id=one.producer_id,
                transaction_state=one.state.title,
            )
            for one in transactions
            if one.state is not TransactionState.DEAD
            and (not wanted_ids or one.producer_id in wanted_ids)
            and (not wanted_states or one.state.title in wanted_states)
            and (duration_ms <= ANY_DURATION or now_ms - one.started_ms > duration_ms)
            and (pattern is None or pattern.fullmatch(one.transactional_id))
        ],
    )


def _unknown(transactional_id: str, code: ErrorCode) -> describe_transactions.TransactionState:
    return describe_transactions.TransactionState(
        error_code=code,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )
