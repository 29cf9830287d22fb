"""A simulated producer of one transactional id, in the classic flow and in that of transaction version 2 (KIP-890)."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from levada.model.error_codes import ErrorCode
from levada.protocol.declare import Request
from levada.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from levada.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from levada.protocol.messages.end_txn import EndTxnRequest
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from levada.records import build_batch
from levada.sim.checkers import CheckFailed
from levada.sim.checkers.transaction_history import Attempt, ProducerIdClaim, TransactionFate, TransactionHistory
from levada.sim.requests.connections import RETRY_SECONDS, Caller

T = TypeVar("T")

TOPIC = "ledger"
CALL_SECONDS = (0.2, 1.0)
"""How long a producer waits for an answer; one that waits less than a late message takes is overtaken by it."""
LATE_SECONDS = 1.5
TRIES = 8
"""Of what can be given up: the transaction is aborted then."""
MAX_EPOCH = 2**15 - 1

TRY_AGAIN = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )
)
MAY_HAVE_HAPPENED = frozenset(
    (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.KAFKA_STORAGE_ERROR)
)
"""Told also to a producer that was heard by a coordinator that then could not confirm it."""
FENCED = frozenset((ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING))
ABORTABLE = frozenset((ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE))


class Fenced(Exception):
    """Another instance has the id, or the transaction's time was up: there is nothing left to do."""


class MustAbort(Exception):
    """The transaction cannot be brought to its commit."""


@dataclass(frozen=True, slots=True)
class Style:
    """How a producer speaks."""

    is_classic: bool
    timeout_ms: int

    @property
    def produce(self) -> int:
        return 11 if self.is_classic else 12

    @property
    def end(self) -> int:
        return 3 if self.is_classic else 5

    @property
    def offset_commit(self) -> int:
        return 3 if self.is_classic else 5


class TransactionalProducer:
    """Keeps to the protocol; where that of the classic flow is open to late messages, it takes a new epoch."""

    def __init__(
        self,
        connect: Callable[[], Caller],
        history: TransactionHistory,
        chance: random.Random,
        owner: str,
        transactional_id: str,
        style: Style,
    ) -> None:
        self.transactional_id = transactional_id
        self.owner = owner
        self.style = style
        self.producer_id = self.producer_epoch = -1
        self.attempt: Attempt | None = None
        self.was_unheard = False
        """A request went without an answer since the epoch was given, so it may come at any time."""
        self._connect = connect
        self._caller = connect()
        self._history = history
        self._chance = chance
        self._claim: ProducerIdClaim | None = None
        self._began_s: float | None = None
        self._sequences: dict[int, int] = {}
        self._added: dict[int, None] = {}
        self._late: list[asyncio.Task[None]] = []

    @property
    def group_id(self) -> str:
        return f"group of {self.transactional_id}"

    async def initialize(self) -> None:
        """Take the id; after an error sometimes as the producer that one was before (KIP-360)."""
        goes_on = self.producer_id >= 0 and self._chance.random() < 0.5
        while True:
            claim = self._history.claim(self.owner, self.transactional_id, _now_s())
            request = InitProducerIdRequest(
                transactional_id=self.transactional_id,
                transaction_timeout_ms=self.style.timeout_ms,
                producer_id=self.producer_id if goes_on else -1,
                producer_epoch=self.producer_epoch if goes_on else -1,
            )
            reply = await self._caller.ask(request, 5, self._chance.choice(CALL_SECONDS))
            code = None if reply is None else ErrorCode(reply.error_code)
            if code not in MAY_HAVE_HAPPENED and reply is not None:
                claim.answered_s = _now_s()
            if reply is not None and code is ErrorCode.NONE:
                break
            if code in FENCED:
                raise Fenced
            if code is not None and code not in TRY_AGAIN:
                raise CheckFailed(f"{self.owner} cannot have {self.transactional_id}: {code.name}")
            await asyncio.sleep(RETRY_SECONDS)
        claim.is_granted = True
        self._claim = claim
        self._take_epoch(reply.producer_id, reply.producer_epoch)

    async def begin(self) -> None:
        if self.producer_id < 0 or (self.style.is_classic and self.was_unheard):
            await self.initialize()
        self._began_s = None
        self._added.clear()
        self.attempt = self._history.begin(self.owner, self.transactional_id)

    async def write(self, sizes: dict[int, list[int]]) -> None:
        """Records of these sizes to these partitions, in one request that is repeated until all are there."""
        assert self.attempt is not None
        if self.style.is_classic:
            await self._add([partition for partition in sizes if partition not in self._added])
        batches = {partition: self._batch(self.attempt, partition, each) for partition, each in sizes.items()}
        for _ in range(TRIES):
            sent_s = self._send()
            data = [PartitionProduceData(index=index, records=batch) for index, (batch, _) in batches.items()]
            topic = TopicProduceData(name=TOPIC, partition_data=data)
            request = ProduceRequest(
                transactional_id=self.transactional_id, acks=-1, timeout_ms=1_000, topic_data=[topic]
            )
            reply = await self._ask_in_transaction(request, self.style.produce)
            for one in [] if reply is None else reply.responses[0].partition_responses:
                if self._learn(one.error_code, sent_s, "a record"):
                    count = batches.pop(one.index)[1]
                    self._sequences[one.index] = self._sequences.get(one.index, 0) + count
                    self.attempt.offsets.setdefault(one.index, []).extend(
                        range(one.base_offset, one.base_offset + count)
                    )
            if not batches:
                return
            await asyncio.sleep(RETRY_SECONDS)
        self.was_unheard = True
        raise MustAbort

    async def commit_offset(self, offset: int) -> None:
        """Of a group that no other producer commits for; the transaction's name goes with it."""
        assert self.attempt is not None
        self.attempt.has_offsets = True
        identity: dict[str, Any] = {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
            "group_id": self.group_id,
        }
        if self.style.is_classic:
            await self._repeat(AddOffsetsToTxnRequest(**identity), 3, lambda reply: reply.error_code, "a group")
        one = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=self.attempt.name
        )
        request = TxnOffsetCommitRequest(**identity, topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[one])])
        version = self.style.offset_commit
        await self._repeat(request, version, lambda reply: reply.topics[0].partitions[0].error_code, "an offset")

    async def end(self, *, commits: bool) -> None:
        """Ask until there is an answer that says what became of the transaction, or that others have the id."""
        attempt = self.attempt
        assert attempt is not None
        may_have_happened = attempt.fate is TransactionFate.ASKED
        if commits:
            attempt.ask()
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=commits,
        )
        if self.style.is_classic and not self._added and not attempt.has_offsets:
            # Nothing was added, and an abort of nothing is an error in the classic flow.
            self.attempt = None
            return
        while True:
            sent_s = self._send()
            reply = await self._ask(request, self.style.end)
            code = None if reply is None else ErrorCode(reply.error_code)
            if reply is not None and code is ErrorCode.NONE:
                break
            if code in FENCED | ABORTABLE and commits and not may_have_happened:
                attempt.abort()
            if code in FENCED:
                self._check_fenced("an end")
                raise Fenced
            if code in ABORTABLE:
                # Whatever there was of it is over; whether by this request is not told.
                self.was_unheard = True
                self.producer_id = -1
                return
            if code is not None and code not in TRY_AGAIN:
                raise CheckFailed(f"{self.owner} cannot end {attempt.name}: {code.name}")
            may_have_happened |= code is None or code in MAY_HAVE_HAPPENED
            await asyncio.sleep(RETRY_SECONDS)
        assert self._claim is not None
        if not may_have_happened:
            self._history.check_heard(self._claim, sent_s, "an end")
        self.attempt = None
        if commits:
            attempt.commit(_now_s())
        else:
            attempt.abort()
        if not self.style.is_classic:
            self._take_epoch(reply.producer_id, reply.producer_epoch)

    def go_on(self, producer_id: int, producer_epoch: int) -> None:
        """The transaction has ended with those of others."""
        self.attempt = None
        if (producer_id, producer_epoch) != (self.producer_id, self.producer_epoch):
            self._take_epoch(producer_id, producer_epoch)

    def check_committed(self, sent_s: float) -> None:
        assert self._claim is not None
        self._history.check_heard(self._claim, sent_s, "a commit with others")

    def check_refusal(self, code: int) -> bool:
        """Whether a refused commit with others says that this one is not the id's producer any more."""
        if code in FENCED:
            self._check_fenced("a commit with others")
        return code in FENCED

    def _take_epoch(self, producer_id: int, producer_epoch: int) -> None:
        before, now = (self.producer_id, self.producer_epoch), (producer_id, producer_epoch)
        if producer_id == before[0] and not before[1] < producer_epoch < MAX_EPOCH:
            raise CheckFailed(f"{self.owner} had {before} and is given {now}")
        self.producer_id, self.producer_epoch = now
        self._sequences.clear()
        self.was_unheard = False

    def _batch(self, attempt: Attempt, partition: int, sizes: list[int]) -> tuple[bytes, int]:
        values = [self._history.write(attempt, partition, size) for size in sizes]
        batch = build_batch(
            [(0, None, value, ()) for value in values],
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self._sequences.get(partition, 0),
            is_transactional=True,
        )
        return batch, len(values)

    async def _add(self, partitions: list[int]) -> None:
        if not partitions:
            return
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=partitions)],
        )
        self._added |= dict.fromkeys(partitions)
        await self._repeat(
            request,
            3,
            lambda reply: max(one.partition_error_code for one in _results(reply)),
            "a partition",
        )

    async def _repeat(self, request: Request[T], version: int, code_of: Callable[[T], int], what: str) -> None:
        for _ in range(TRIES):
            sent_s = self._send()
            reply = await self._ask_in_transaction(request, version)
            if reply is not None and self._learn(code_of(reply), sent_s, what):
                return
            await asyncio.sleep(RETRY_SECONDS)
        self.was_unheard = True
        raise MustAbort

    async def _ask(self, request: Request[T], version: int) -> T | None:
        seconds = self._chance.choice(CALL_SECONDS)
        if self._chance.random() < 0.02:
            self._late.append(asyncio.get_running_loop().create_task(self._send_late(request, version)))
            await asyncio.sleep(seconds)
            self.was_unheard = True
            return None
        reply = await self._caller.ask(request, version, seconds)
        if reply is None:
            self.was_unheard = True
        return reply

    async def _send_late(self, request: Request[object], version: int) -> None:
        """The network keeps a message for so long that its sender, on other connections, is ahead of it."""
        await asyncio.sleep(self._chance.random() * LATE_SECONDS)
        caller = self._connect()
        await caller.ask(request, version)
        caller.close()

    async def _ask_in_transaction(self, request: Request[T], version: int) -> T | None:
        """A producer that gets no answer may end its transaction, and the end may then overtake what is on its way."""
        reply = await self._ask(request, version)
        if reply is None and self._chance.random() < 0.4:
            raise MustAbort
        return reply

    def _send(self) -> float:
        now_s = _now_s()
        if self._began_s is None:
            self._began_s = now_s
        return now_s

    def _learn(self, code: int, sent_s: float, what: str) -> bool:
        """Whether it was carried out, False if it must be sent again."""
        assert self._claim is not None
        if code == ErrorCode.NONE:
            self._history.check_heard(self._claim, sent_s, what)
            return True
        if code in FENCED:
            self._check_fenced(what)
            raise Fenced
        if code in ABORTABLE:
            # What else was in the request may be there or not, and so its sequence numbers.
            self.was_unheard = True
            raise MustAbort
        if code not in TRY_AGAIN:
            raise CheckFailed(f"{what} of {self.owner} was answered with {ErrorCode(code).name}")
        return False

    def _check_fenced(self, what: str) -> None:
        assert self._claim is not None
        self._history.check_fenced(self._claim, self._began_s, self.style.timeout_ms / 1_000, _now_s(), what)


def _results(reply: AddPartitionsToTxnResponse) -> list[AddPartitionsToTxnPartitionResult]:
    return [one for topic in reply.results_by_topic_v3_and_below for one in topic.results_by_partition]


def _now_s() -> float:
    return asyncio.get_running_loop().time()
