"""A coordinator whose clock is moved by hand, producers that need few words, and partitions that get markers."""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from levada.coordination.shard import Shard
from levada.model.error_codes import ErrorCode
from levada.model.errors import ApiError, CoordinatorLoadInProgress
from levada.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from levada.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from levada.transactions import (
    MARKERS,
    GroupMember,
    GroupOutcome,
    MarkerWork,
    Transaction,
    TransactionMachine,
    TransactionSettings,
    TransactionState,
)
from levada.transactions.transaction import TopicPartition
from tests.unit.transactions.journals import MemoryJournal

ID = "t"
A, B = ("a", 0), ("b", 1)
TIMEOUT_MS = 60_000
CLASSIC = 4
"""The newest EndTxn of clients that keep their epoch."""
BUMPING = 5
FROM_CLIENTS = 3
"""The newest AddPartitionsToTxn of clients; brokers send newer ones."""
FROM_BROKERS = 5
FIRST_PRODUCER_ID = 1_000


class Coordinator:
    """A shard with a clock; everything is answered at once unless the journal is held."""

    def __init__(self, settings: TransactionSettings | None = None, journal: MemoryJournal | None = None) -> None:
        self.settings = settings or TransactionSettings()
        self.journal = journal or MemoryJournal(self.settings.transaction_version)
        self.now_ms = 1_000_000
        self.replies: dict[int, Any] = {}
        self.work: list[MarkerWork] = []
        """What is still to be told to partitions."""
        self.has_ids = True
        self._ids = count(FIRST_PRODUCER_ID)
        self._tokens = count(1)
        self.load()

    def load(self) -> None:
        """Begin anew with what the journal holds, as another coordinator would."""
        self.work.clear()
        self.shard = Shard(TransactionMachine(self.settings, self.new_producer_id), self.journal)
        for record in self.journal.records():
            self.shard.load(record)
        self.shard.finish_loading(self.journal.end_offset, self.now_ms)
        self.collect()

    def new_producer_id(self) -> int:
        if not self.has_ids:
            raise CoordinatorLoadInProgress("no producer id at hand")
        return next(self._ids)

    @property
    def machine(self) -> TransactionMachine:
        return self.shard.machine

    def of(self, name: str = ID) -> Transaction:
        return self.machine.transactions[name]

    def state(self, name: str = ID) -> TransactionState:
        return self.of(name).state

    def identity(self, name: str = ID) -> tuple[int, int]:
        return self.of(name).producer_id, self.of(name).producer_epoch

    def ask(self, operation: Callable[[TransactionMachine, Any], None]) -> int:
        token = next(self._tokens)
        self.shard.run(lambda machine: operation(machine, token), self.now_ms)
        self.collect()
        return token

    def run(self, operation: Callable[[TransactionMachine, Any], None]) -> Any:
        return self.replies.pop(self.ask(operation))

    def collect(self) -> None:
        for token, reply in self.shard.take_output():
            if token is not MARKERS:
                assert isinstance(token, int)
                self.replies[token] = reply
            elif isinstance(reply, MarkerWork):
                self.work.append(reply)
            else:
                assert isinstance(reply, ApiError)

    def advance(self, milliseconds: int) -> None:
        """Let time pass, stopping at every deadline on the way as a driver would."""
        end_ms = self.now_ms + milliseconds
        while (deadline_ms := self.machine.deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.shard.expire(self.now_ms)
        self.now_ms = end_ms
        self.collect()

    def sleep(self, milliseconds: int) -> None:
        """Let so much time pass that going from deadline to deadline would take long; then do what is due."""
        self.now_ms += milliseconds
        self.advance(0)

    def init(
        self,
        name: str | None = ID,
        claimed: tuple[int, int] = (-1, -1),
        timeout_ms: int = TIMEOUT_MS,
        version: int = 5,
    ) -> InitProducerIdResponse:
        request = InitProducerIdRequest(
            transactional_id=name,
            transaction_timeout_ms=timeout_ms,
            producer_id=claimed[0],
            producer_epoch=claimed[1],
        )
        reply = self.run(lambda machine, token: machine.init_producer_id(token, request, version, self.now_ms))
        assert isinstance(reply, InitProducerIdResponse)
        return reply

    def add(
        self,
        *partitions: TopicPartition,
        name: str = ID,
        at: tuple[int, int] | None = None,
        version: int = FROM_CLIENTS,
    ) -> ErrorCode:
        producer_id, epoch = at or self.identity(name)
        reply = self.run(
            lambda machine, token: machine.add_partitions(
                token, name, producer_id, epoch, partitions, version, self.now_ms
            )
        )
        assert isinstance(reply, ErrorCode)
        return reply

    def verify(self, *partitions: TopicPartition, name: str = ID, at: tuple[int, int] | None = None) -> list[ErrorCode]:
        producer_id, epoch = at or self.identity(name)
        reply = self.run(lambda machine, token: machine.verify_partitions(token, name, producer_id, epoch, partitions))
        assert set(reply) == set(partitions)
        return [reply[one] for one in partitions]

    def end(
        self, *, commit: bool = True, name: str = ID, at: tuple[int, int] | None = None, version: int = CLASSIC
    ) -> EndTxnResponse:
        producer_id, epoch = at or self.identity(name)
        request = EndTxnRequest(transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=commit)
        reply = self.run(lambda machine, token: machine.end(token, request, version, self.now_ms))
        assert isinstance(reply, EndTxnResponse)
        return reply

    def group_commit(self, members: Sequence[GroupMember]) -> GroupOutcome:
        reply = self.run(lambda machine, token: machine.group_commit(token, members, self.now_ms))
        assert isinstance(reply, GroupOutcome)
        return reply

    def members(self, *names: str) -> list[GroupMember]:
        return [GroupMember(name, *self.identity(name)) for name in names]

    def write_markers(self) -> None:
        """All partitions are told what is to be told to them."""
        while self.work:
            for marker in self.work.pop(0).markers:
                self.markers_written(marker.transactional_id, marker.producer_epoch)

    def markers_written(self, name: str, epoch: int) -> None:
        self.shard.run(lambda machine: machine.markers_written(name, epoch, self.now_ms), self.now_ms)
        self.collect()

    def open(self, *names: str, version: int = FROM_CLIENTS, partitions: Sequence[TopicPartition] = (A,)) -> None:
        """Producers with a transaction each that has written to these partitions."""
        for name in names:
            assert self.init(name).error_code == 0
            assert self.add(*partitions, name=name, version=version) is ErrorCode.NONE
