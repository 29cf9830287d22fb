"""AddPartitionsToTxn: partitions that become part of a transaction, or that are looked for in it (KIP-890)."""

from collections.abc import Mapping, Sequence

from levada.model.error_codes import ErrorCode
from levada.transactions.settings import EPOCH_BUMP_VERSION
from levada.transactions.states import DECIDED, IDLE, TransactionState
from levada.transactions.transaction import CLASSIC_VERSION, TopicPartition, Transaction

FENCED_SINCE = 2
"""Clients of older versions are told INVALID_PRODUCER_EPOCH where others are told PRODUCER_FENCED (KIP-588)."""

FROM_BROKERS = 4
"""From this version on brokers send it, for clients that leave adding to them."""


def add(
    known: Transaction | None,
    producer_id: int,
    producer_epoch: int,
    partitions: Sequence[TopicPartition],
    version: int,
    now_ms: int,
) -> Transaction | ErrorCode:
    if known is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if known.state in DECIDED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if known.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if known.producer_epoch != producer_epoch:
        return ErrorCode.PRODUCER_FENCED if version >= FENCED_SINCE else ErrorCode.INVALID_PRODUCER_EPOCH
    if known.state is TransactionState.ONGOING and known.partitions.issuperset(partitions):
        return ErrorCode.NONE
    if known.state is not TransactionState.ONGOING and known.state not in IDLE:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    client_version = EPOCH_BUMP_VERSION if version >= FROM_BROKERS else CLASSIC_VERSION
    return known.grown(partitions, client_version, now_ms)


def verify(
    transactional_id: str,
    known: Transaction | None,
    producer_id: int,
    producer_epoch: int,
    partitions: Sequence[TopicPartition],
) -> Mapping[TopicPartition, ErrorCode]:
    refusal = _check(transactional_id, known, producer_id, producer_epoch)
    if refusal or known is None:
        return dict.fromkeys(partitions, refusal)
    return {one: ErrorCode.NONE if one in known.partitions else ErrorCode.TRANSACTION_ABORTABLE for one in partitions}


def _check(transactional_id: str, known: Transaction | None, producer_id: int, producer_epoch: int) -> ErrorCode:
    if not transactional_id:
        return ErrorCode.INVALID_REQUEST
    if known is None or known.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if known.producer_epoch != producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if known.state in DECIDED else ErrorCode.NONE
