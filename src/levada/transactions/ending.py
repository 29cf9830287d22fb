"""EndTxn: commit or abort, in the classic way and in that of transaction version 2."""

from collections.abc import Callable
from enum import Enum

from levada.model.error_codes import ErrorCode
from levada.protocol.messages.end_txn import EPOCH_BUMP_SINCE, EndTxnRequest, EndTxnResponse
from levada.transactions.records import NO_EPOCH, NO_GROUP, NO_PRODUCER_ID
from levada.transactions.settings import EPOCH_BUMP_VERSION
from levada.transactions.states import DECIDED, TransactionState
from levada.transactions.transaction import CLASSIC_VERSION, MAX_EPOCH, Transaction

FENCED_SINCE = 2
"""Clients of older versions are told INVALID_PRODUCER_EPOCH where others are told PRODUCER_FENCED (KIP-588)."""


class EndingStep(Enum):
    END = "the transaction ends as asked"
    REPEATED = "it has ended so before"
    WRONG = "it cannot end so"


CLASSIC_STEPS: dict[tuple[TransactionState, bool], EndingStep] = {
    (TransactionState.ONGOING, True): EndingStep.END,
    (TransactionState.ONGOING, False): EndingStep.END,
    (TransactionState.COMPLETE_COMMIT, True): EndingStep.REPEATED,
    (TransactionState.COMPLETE_ABORT, False): EndingStep.REPEATED,
    (TransactionState.COMPLETE_COMMIT, False): EndingStep.WRONG,
    (TransactionState.COMPLETE_ABORT, True): EndingStep.WRONG,
    (TransactionState.EMPTY, True): EndingStep.WRONG,
    (TransactionState.EMPTY, False): EndingStep.WRONG,
}
"""By the state, and whether it is a commit."""

STEPS: dict[tuple[TransactionState, bool], EndingStep] = {
    (TransactionState.ONGOING, True): EndingStep.END,
    (TransactionState.ONGOING, False): EndingStep.END,
    # A client that adds partitions by producing may not know whether there is anything to abort.
    (TransactionState.EMPTY, False): EndingStep.END,
    (TransactionState.COMPLETE_COMMIT, False): EndingStep.END,
    (TransactionState.COMPLETE_ABORT, False): EndingStep.END,
    (TransactionState.EMPTY, True): EndingStep.WRONG,
    (TransactionState.COMPLETE_COMMIT, True): EndingStep.WRONG,
    (TransactionState.COMPLETE_ABORT, True): EndingStep.WRONG,
}
"""For a request with the epoch that the transaction has."""

STEPS_OF_RETRIES: dict[tuple[TransactionState, bool], EndingStep] = {
    (TransactionState.COMPLETE_COMMIT, True): EndingStep.REPEATED,
    (TransactionState.COMPLETE_ABORT, False): EndingStep.REPEATED,
    (TransactionState.COMPLETE_COMMIT, False): EndingStep.WRONG,
    (TransactionState.COMPLETE_ABORT, True): EndingStep.WRONG,
}
"""For a request with the epoch before it was bumped: the reply to the first one was lost."""


def client_version_of(version: int) -> int:
    """The transaction version in which a client of this version of EndTxn speaks."""
    return EPOCH_BUMP_VERSION if version >= EPOCH_BUMP_SINCE else CLASSIC_VERSION


def end(
    known: Transaction | None,
    request: EndTxnRequest,
    client_version: int,
    new_producer_id: Callable[[], int],
    now_ms: int,
) -> Transaction | ErrorCode:
    """What follows; NONE if it has ended so before."""
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if known is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    bumps_epoch = client_version >= EPOCH_BUMP_VERSION
    step = (_step if bumps_epoch else _classic_step)(known, request)
    if isinstance(step, ErrorCode):
        return step
    if step is EndingStep.WRONG:
        return ErrorCode.INVALID_TXN_STATE
    if step is EndingStep.REPEATED:
        return ErrorCode.NONE
    state = TransactionState.PREPARE_COMMIT if request.committed else TransactionState.PREPARE_ABORT
    return prepare(known, state, client_version, new_producer_id, now_ms)


def prepare(
    transaction: Transaction,
    state: TransactionState,
    client_version: int,
    new_producer_id: Callable[[], int],
    now_ms: int,
    group: bytes = NO_GROUP,
) -> Transaction | ErrorCode:
    next_producer_id = NO_PRODUCER_ID
    if client_version >= EPOCH_BUMP_VERSION and transaction.is_exhausted:
        if transaction.producer_epoch == MAX_EPOCH and state is TransactionState.PREPARE_COMMIT:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        next_producer_id = new_producer_id()
    return transaction.prepared(state, client_version, next_producer_id, now_ms, group)


def response(known: Transaction | None, decided: Transaction | ErrorCode, version: int) -> EndTxnResponse:
    """With what the producer goes on, if it leaves the epoch to the coordinator."""
    code = decided if isinstance(decided, ErrorCode) else ErrorCode.NONE
    if code is ErrorCode.PRODUCER_FENCED and version < FENCED_SINCE:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    goes_on = decided if isinstance(decided, Transaction) else known
    if code or version < EPOCH_BUMP_SINCE or goes_on is None:
        return EndTxnResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH)
    producer_id, producer_epoch = goes_on.next_identity
    return EndTxnResponse(producer_id=producer_id, producer_epoch=producer_epoch)


def _classic_step(known: Transaction, request: EndTxnRequest) -> EndingStep | ErrorCode:
    if known.producer_id != request.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if known.producer_epoch != request.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if known.state in DECIDED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return CLASSIC_STEPS.get((known.state, request.committed), ErrorCode.UNKNOWN_SERVER_ERROR)


def _step(known: Transaction, request: EndTxnRequest) -> EndingStep | ErrorCode:
    if known.state in DECIDED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    wanted = known.state, request.committed
    is_retry = known.was_at(request.producer_id, request.producer_epoch)
    # What ended in the classic way kept its epoch, so an epoch that is one less is that of an older instance. Apache
    # takes that for a retry all the same: it confirms what the successor ended, and gives its epoch to the zombie.
    if is_retry and known.bumps_epoch and wanted in STEPS_OF_RETRIES:
        return STEPS_OF_RETRIES[wanted]
    if known.producer_id != request.producer_id:
        return ErrorCode.PRODUCER_FENCED if is_retry else ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if known.producer_epoch != request.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return STEPS.get(wanted, ErrorCode.UNKNOWN_SERVER_ERROR)
