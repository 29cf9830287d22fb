"""All that one partition of `__transaction_state` keeps: the transactional ids that hash to it."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import TypeAlias

from levada.coordination.decision import Record
from levada.coordination.shard import Outbox, Token
from levada.coordination.timers import Timers
from levada.model.error_codes import ErrorCode
from levada.model.errors import ApiError
from levada.protocol.messages import describe_transactions
from levada.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from levada.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from levada.transactions import adding, ending, initializing
from levada.transactions.describing import described
from levada.transactions.group_commit import GroupMember, GroupOutcome, commit_together, committed
from levada.transactions.markers import MARKERS, Marker, MarkerWork
from levada.transactions.records import TransactionLogKey, TransactionLogValue
from levada.transactions.settings import TransactionSettings
from levada.transactions.states import DECIDED, IDLE, TransactionState
from levada.transactions.transaction import TopicPartition, Transaction, record_of, removal_of, transaction_from

COMPLETION_RETRY_MS = 100
"""How soon a completion is written again that could not be."""

ABORTS_PER_TURN = 50
REMOVALS_PER_BATCH = 500
REMOVAL_BYTES = 256 * 1024
"""Of the ids in a batch of removals; an id may be 32 KB long."""
TURN_INTERVAL_MS = 1


class TransactionUpkeep(Enum):
    """Timers of what is looked at now and then, and of what is then done bit by bit."""

    ABORT_CHECK = "transactions that are open for too long"
    ABORTS = "their aborts, one after the other"
    REMOVAL_CHECK = "ids that were not used for long"
    REMOVALS = "their removal, a batch at a time"


@dataclass(frozen=True, slots=True)
class Completion:
    """Timer: all markers are written, but the record that says so could not be."""

    transactional_id: str
    producer_epoch: int


Timer: TypeAlias = TransactionUpkeep | Completion


class TransactionMachine:
    """Every operation answers its token through the outbox; work for the partitions comes under `MARKERS`."""

    def __init__(self, settings: TransactionSettings, new_producer_id: Callable[[], int]) -> None:
        self.outbox = Outbox()
        self._settings = settings
        self._new_producer_id = new_producer_id
        self._transactions: dict[str, Transaction] = {}
        self._open: dict[str, None] = {}
        """The ids with a transaction that is Ongoing."""
        self._timers: Timers[Timer] = Timers()
        self._to_abort: deque[str] = deque()
        self._aborted_this_turn = 0
        self._to_remove: deque[str] = deque()

    @property
    def transactions(self) -> Mapping[str, Transaction]:
        return MappingProxyType(self._transactions)

    def apply(self, record: Record) -> None:
        key = record.key
        if not isinstance(key, TransactionLogKey):
            return
        transactional_id = key.transactional_id
        if record.value is None:
            self._transactions.pop(transactional_id, None)
            self._open.pop(transactional_id, None)
            return
        assert isinstance(record.value, TransactionLogValue)
        transaction = transaction_from(transactional_id, record.value)
        if transaction is None:
            return
        self._transactions[transactional_id] = transaction
        if transaction.state is TransactionState.ONGOING:
            self._open[transactional_id] = None
        else:
            self._open.pop(transactional_id, None)

    def on_loaded(self, now_ms: int) -> None:
        """Finish what was decided: the markers of one group in one piece, as they were before."""
        groups: dict[bytes, list[Transaction]] = {}
        for transaction in self._transactions.values():
            if transaction.state in DECIDED and transaction.group:
                groups.setdefault(transaction.group, []).append(transaction)
            elif transaction.state in DECIDED:
                self.outbox.answer(MARKERS, MarkerWork.of([transaction]))
        for members in groups.values():
            self.outbox.answer(MARKERS, MarkerWork.of(members))
        self._timers.set(TransactionUpkeep.ABORT_CHECK, now_ms + self._settings.abort_check_interval_ms)
        self._timers.set(TransactionUpkeep.REMOVAL_CHECK, now_ms + self._settings.removal_check_interval_ms)

    def resign(self) -> None:
        """No request waits here: each is answered by what it decides."""

    def deadline_ms(self) -> int | None:
        return self._timers.deadline_ms()

    def expire(self, now_ms: int) -> bool:
        timer = self._timers.pop_due(now_ms)
        if timer is None:
            return False
        if isinstance(timer, Completion):
            self.markers_written(timer.transactional_id, timer.producer_epoch, now_ms)
        elif timer is TransactionUpkeep.ABORT_CHECK:
            self._look_for_aborts(now_ms)
        elif timer is TransactionUpkeep.ABORTS:
            self._abort_next(now_ms)
        elif timer is TransactionUpkeep.REMOVAL_CHECK:
            self._look_for_removals(now_ms)
        else:
            self._remove_next(now_ms)
        return True

    def init_producer_id(
        self, token: Token[InitProducerIdResponse], request: InitProducerIdRequest, version: int, now_ms: int
    ) -> None:
        """Answers an InitProducerIdResponse."""
        refusal = initializing.check(request, self._settings)
        if not refusal and request.transactional_id is None:
            self.outbox.answer(token, self._idempotent())
            return
        decided: Transaction | ErrorCode = refusal
        if not refusal:
            known = self._transactions.get(request.transactional_id or "")
            server_version = self._settings.transaction_version
            try:
                decided = initializing.initialize(known, request, server_version, self._new_producer_id, now_ms)
            except ApiError as error:
                decided = error.code
        self.outbox.answer(token, initializing.response(decided, version))
        if isinstance(decided, Transaction):
            self._follow([decided])

    def add_partitions(
        self,
        token: Token[ErrorCode],
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        version: int,
        now_ms: int,
    ) -> None:
        """Answers one ErrorCode for all. `version` is that of AddPartitionsToTxn.

        AddOffsetsToTxn is always of classic clients: pass its version up to 3. What a broker adds for a client that
        produces or commits offsets has version 4 or higher.
        """
        known = self._transactions.get(transactional_id)
        decided: Transaction | ErrorCode = ErrorCode.INVALID_REQUEST
        if transactional_id:
            decided = adding.add(known, producer_id, producer_epoch, partitions, version, now_ms)
        self.outbox.answer(token, decided if isinstance(decided, ErrorCode) else ErrorCode.NONE)
        if isinstance(decided, Transaction):
            self._follow([decided])

    def verify_partitions(
        self,
        token: Token[Mapping[TopicPartition, ErrorCode]],
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
    ) -> None:
        """Answers a code for each partition, whatever version asks."""
        known = self._transactions.get(transactional_id)
        codes = adding.verify(transactional_id, known, producer_id, producer_epoch, partitions)
        self.outbox.answer(token, codes)

    def end(self, token: Token[EndTxnResponse], request: EndTxnRequest, version: int, now_ms: int) -> None:
        """Answers an EndTxnResponse."""
        known = self._transactions.get(request.transactional_id)
        client_version = ending.client_version_of(version)
        try:
            decided = ending.end(known, request, client_version, self._new_producer_id, now_ms)
        except ApiError as error:
            decided = error.code
        self.outbox.answer(token, ending.response(known, decided, version))
        if isinstance(decided, Transaction):
            self._follow([decided])

    def group_commit(self, token: Token[GroupOutcome], members: Sequence[GroupMember], now_ms: int) -> None:
        """Answers a GroupOutcome."""
        decided = commit_together(self._transactions, members, self._new_producer_id, now_ms)
        if isinstance(decided, GroupOutcome):
            self.outbox.answer(token, decided)
            return
        self.outbox.answer(token, committed(decided))
        self._follow(decided)

    def markers_written(self, transactional_id: str, producer_epoch: int, now_ms: int) -> None:
        """All partitions of a decided transaction have its markers, which are of this epoch."""
        self._complete([(transactional_id, producer_epoch)], now_ms)

    def all_markers_written(self, markers: Sequence[Marker], now_ms: int) -> None:
        """The same for several, which are completed in one batch."""
        self._complete([(marker.transactional_id, marker.producer_epoch) for marker in markers], now_ms)

    def _complete(self, written: Sequence[tuple[str, int]], now_ms: int) -> None:
        completed: list[Transaction] = []
        for transactional_id, producer_epoch in written:
            known = self._transactions.get(transactional_id)
            if known is not None and known.state in DECIDED and known.producer_epoch == producer_epoch:
                completed.append(known.completed(now_ms))
        if completed:
            self._follow(completed)
            self.outbox.undo.append(partial(self._complete_later, written))

    def _complete_later(self, written: Sequence[tuple[str, int]], failed_ms: int) -> None:
        """Each for itself: together they may have been too large for a batch."""
        for transactional_id, producer_epoch in written:
            again = Completion(transactional_id, producer_epoch)
            self._timers.set(again, failed_ms + COMPLETION_RETRY_MS)

    def describe(self, token: Token[describe_transactions.TransactionState], transactional_id: str) -> None:
        """Answers a TransactionState of DescribeTransactions."""
        self.outbox.answer(token, described(transactional_id, self._transactions.get(transactional_id)))

    def _idempotent(self) -> InitProducerIdResponse:
        try:
            return InitProducerIdResponse(producer_id=self._new_producer_id(), producer_epoch=0)
        except ApiError as error:
            return initializing.response(error.code, initializing.FENCED_SINCE)

    def _follow(self, following: Sequence[Transaction]) -> None:
        """Write what follows, in one batch; if that decides outcomes, the partitions are to be told in one piece."""
        self.outbox.write([record_of(one) for one in following])
        self.outbox.then.append(partial(self._remember_epochs, following))
        decided = [one for one in following if one.state in DECIDED]
        if decided:
            self.outbox.answer(MARKERS, MarkerWork.of(decided))

    def _remember_epochs(self, following: Iterable[Transaction], _: int) -> None:
        """The records do not say what the last epochs were; else what was applied is what was decided."""
        for one in following:
            self._transactions[one.transactional_id] = one

    def _look_for_aborts(self, now_ms: int) -> None:
        self._timers.set(TransactionUpkeep.ABORT_CHECK, now_ms + self._settings.abort_check_interval_ms)
        late = (name for name in self._open if self._transactions[name].is_timed_out(now_ms))
        self._to_abort = deque(late)
        if self._to_abort:
            self._timers.set(TransactionUpkeep.ABORTS, now_ms)

    def _abort_next(self, now_ms: int) -> None:
        """One at a time, as each may be too large for a batch with others; what fails comes up at the next check."""
        known = self._transactions.get(self._to_abort.popleft()) if self._to_abort else None
        if known is not None and known.is_timed_out(now_ms):
            try:
                version = self._settings.transaction_version
                self._follow([initializing.fence(known, version, self._new_producer_id, now_ms)])
            except ApiError:
                pass
        self._aborted_this_turn += 1
        if not self._to_abort:
            self._aborted_this_turn = 0
            return
        pause_ms = 0 if self._aborted_this_turn % ABORTS_PER_TURN else TURN_INTERVAL_MS
        self._timers.set(TransactionUpkeep.ABORTS, now_ms + pause_ms)

    def _look_for_removals(self, now_ms: int) -> None:
        self._timers.set(TransactionUpkeep.REMOVAL_CHECK, now_ms + self._settings.removal_check_interval_ms)
        self._to_remove = deque(name for name, one in self._transactions.items() if self._is_unused(one, now_ms))
        if self._to_remove:
            self._timers.set(TransactionUpkeep.REMOVALS, now_ms)

    def _remove_next(self, now_ms: int) -> None:
        size = 0
        records: list[Record] = []
        while self._to_remove and len(records) < REMOVALS_PER_BATCH and size < REMOVAL_BYTES:
            name = self._to_remove.popleft()
            known = self._transactions.get(name)
            if known is not None and self._is_unused(known, now_ms):
                records.append(removal_of(name))
                size += len(name)
        self.outbox.write(records)
        if self._to_remove:
            self._timers.set(TransactionUpkeep.REMOVALS, now_ms + TURN_INTERVAL_MS)

    def _is_unused(self, transaction: Transaction, now_ms: int) -> bool:
        return transaction.state in IDLE and transaction.updated_ms <= now_ms - self._settings.id_expiration_ms
