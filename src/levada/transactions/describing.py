"""DescribeTransactions and ListTransactions: what operators are told of transactions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from levada.model.error_codes import ErrorCode
from levada.model.regexes import Regex, compiled
from levada.protocol.messages import describe_transactions, list_transactions
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


@dataclass(frozen=True, slots=True)
class TransactionFilter:
    """What ListTransactions asks for; a part that names nothing lets everything pass."""

    states: frozenset[str]
    unknown_states: list[str]
    producer_ids: frozenset[int]
    duration_ms: int
    pattern: Regex | None

    @classmethod
    def of(
        cls, states: Sequence[str], producer_ids: Sequence[int], duration_ms: int, id_pattern: str | None
    ) -> "TransactionFilter":
        """InvalidRegex if the pattern is none."""
        return cls(
            states=frozenset(states),
            unknown_states=[title for title in dict.fromkeys(states) if title not in BY_TITLE],
            producer_ids=frozenset(producer_ids),
            duration_ms=duration_ms,
            pattern=compiled(id_pattern) if id_pattern else None,
        )

    def listed(self, transactions: Iterable[Transaction], now_ms: int) -> list[list_transactions.TransactionState]:
        return [
            list_transactions.TransactionState(
                transactional_id=one.transactional_id,
                producer_id=one.producer_id,
                transaction_state=one.state.title,
            )
            for one in transactions
            if one.state is not TransactionState.DEAD
            and (not self.producer_ids or one.producer_id in self.producer_ids)
            and (not self.states or one.state.title in self.states)
            and (self.duration_ms <= ANY_DURATION or now_ms - one.started_ms > self.duration_ms)
            and (self.pattern is None or self.pattern.fullmatch(one.transactional_id))
        ]


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
