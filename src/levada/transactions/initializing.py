"""InitProducerId: which producer may use a transactional id from now on, with which producer id and epoch."""

from collections.abc import Callable
from dataclasses import dataclass

from levada.model.error_codes import ErrorCode
from levada.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from levada.transactions.records import NO_EPOCH, NO_PRODUCER_ID
from levada.transactions.settings import EPOCH_BUMP_VERSION, TransactionSettings
from levada.transactions.states import DECIDED, IDLE, TransactionState
from levada.transactions.transaction import MAX_CLIENT_EPOCH, Transaction

FENCED_SINCE = 4
"""Clients of older versions are told INVALID_PRODUCER_EPOCH where others are told PRODUCER_FENCED (KIP-588)."""


@dataclass(frozen=True, slots=True)
class CurrentProducer:
    """What a producer that goes on after an error says of itself (KIP-360)."""

    producer_id: int
    producer_epoch: int


def check(request: InitProducerIdRequest, settings: TransactionSettings) -> ErrorCode:
    """Whether the request makes sense, whatever the transaction's state."""
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is None:
        return ErrorCode.NONE
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if not 0 < request.transaction_timeout_ms <= settings.max_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE


def initialize(
    known: Transaction | None,
    request: InitProducerIdRequest,
    server_version: int,
    new_producer_id: Callable[[], int],
    now_ms: int,
) -> Transaction | ErrorCode:
    """What follows: Empty with the epoch to answer, or PrepareAbort if the older instance is to be fenced first."""
    timeout_ms = request.transaction_timeout_ms
    transaction = known or _first(request.transactional_id or "", new_producer_id(), timeout_ms, now_ms)
    if transaction.state in DECIDED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    claimed = None
    if request.producer_id != NO_PRODUCER_ID:
        claimed = CurrentProducer(request.producer_id, request.producer_epoch)
        if not _is_plausible(transaction, claimed):
            return ErrorCode.PRODUCER_FENCED
    if transaction.state is TransactionState.ONGOING:
        if claimed not in (None, CurrentProducer(transaction.producer_id, transaction.producer_epoch)):
            # Apache lets an older instance abort its successor's transaction here, before it tells it that it is old.
            return ErrorCode.PRODUCER_FENCED
        # The epoch that fences is never given to a producer: one that asks again gets the epoch after it.
        return fence(transaction, server_version, new_producer_id, now_ms)
    if transaction.state not in IDLE:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    if transaction.is_exhausted:
        return _rotate(transaction, claimed, timeout_ms, new_producer_id, now_ms)
    return _bump(transaction, claimed, timeout_ms, now_ms)


def fence(
    transaction: Transaction, server_version: int, new_producer_id: Callable[[], int], now_ms: int
) -> Transaction:
    """The abort of an open transaction that its producer did not ask for."""
    needs_id = transaction.is_exhausted and server_version >= EPOCH_BUMP_VERSION
    return transaction.fenced(server_version, new_producer_id() if needs_id else NO_PRODUCER_ID, now_ms)


def response(decided: Transaction | ErrorCode, version: int) -> InitProducerIdResponse:
    if isinstance(decided, Transaction):
        if decided.state is TransactionState.EMPTY:
            return InitProducerIdResponse(producer_id=decided.producer_id, producer_epoch=decided.producer_epoch)
        decided = ErrorCode.CONCURRENT_TRANSACTIONS
    if decided is ErrorCode.PRODUCER_FENCED and version < FENCED_SINCE:
        decided = ErrorCode.INVALID_PRODUCER_EPOCH
    return InitProducerIdResponse(error_code=decided, producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH)


def _first(transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
    return Transaction(transactional_id, producer_id, NO_EPOCH, timeout_ms, TransactionState.EMPTY, updated_ms=now_ms)


def _is_plausible(transaction: Transaction, claimed: CurrentProducer) -> bool:
    """Whether it may be this id's producer; its epoch is another question."""
    if transaction.producer_epoch == NO_EPOCH or claimed.producer_id == transaction.producer_id:
        return True
    # The reply that told of the new producer id may have been lost.
    was_exhausted = claimed.producer_epoch >= MAX_CLIENT_EPOCH
    return was_exhausted and claimed.producer_id == transaction.previous_producer_id


def _rotate(
    transaction: Transaction,
    claimed: CurrentProducer | None,
    timeout_ms: int,
    new_producer_id: Callable[[], int],
    now_ms: int,
) -> Transaction | ErrorCode:
    if claimed is None:
        return transaction.rotated(new_producer_id(), NO_EPOCH, timeout_ms, now_ms)
    if claimed.producer_epoch != transaction.producer_epoch:
        # Apache cannot bump what is exhausted, and fails before it finds the epoch to be an old one.
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return transaction.rotated(new_producer_id(), transaction.producer_epoch, timeout_ms, now_ms)


def _bump(
    transaction: Transaction, claimed: CurrentProducer | None, timeout_ms: int, now_ms: int
) -> Transaction | ErrorCode:
    epoch = transaction.producer_epoch
    if claimed is None:
        # Another instance: the producer that had the epoch before cannot come back with it.
        return transaction.initialized(epoch + 1, NO_EPOCH, timeout_ms, now_ms)
    if epoch in (NO_EPOCH, claimed.producer_epoch):
        return transaction.initialized(epoch + 1, epoch, timeout_ms, now_ms)
    if claimed.producer_epoch == transaction.last_producer_epoch:
        # It was bumped for the same request before, and the reply was lost.
        return transaction.initialized(epoch, transaction.last_producer_epoch, timeout_ms, now_ms)
    return ErrorCode.PRODUCER_FENCED
