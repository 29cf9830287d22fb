"""A producer's transactions: the calls to coordinators, and which call is allowed when."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum, auto
from functools import partial
from typing import TypeVar

from levada.client.cluster import Cluster, CoordinatorKind, Deadline, background
from levada.client.errors import IllegalState, KafkaError, ProducerFenced, error_for
from levada.client.options import Options
from levada.client.producer.identity import ProducerIdentity
from levada.client.producer.partition_queue import PartitionQueue
from levada.client.types import GroupMetadata, OffsetAndMetadata, TopicPartition
from levada.model.error_codes import ErrorCode
from levada.protocol.declare import Request
from levada.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from levada.protocol.messages.add_partitions_to_txn import (
    BY_BROKERS_SINCE,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from levada.protocol.messages.end_txn import EPOCH_BUMP_SINCE, EndTxnRequest, EndTxnResponse
from levada.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from levada.protocol.messages.txn_offset_commit import (
    IMPLICIT_ADD_SINCE,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

T = TypeVar("T")

TRANSACTION_VERSION = "transaction.version"
IMPLICIT_ADD_VERSION = 2
LAST_OLD_ADD_OFFSETS = 3

ELSEWHERE = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
)
FENCING = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
GROUP_FAULTS = (
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.STALE_MEMBER_EPOCH,
)


class TransactionPhase(Enum):
    UNINITIALIZED = auto()
    READY = auto()
    IN_TRANSACTION = auto()
    COMMITTING = auto()
    ABORTING = auto()
    MUST_ABORT = auto()
    FENCED = auto()


ALLOWED: dict[str, tuple[TransactionPhase, ...]] = {
    "init_transactions": (TransactionPhase.UNINITIALIZED,),
    "begin_transaction": (TransactionPhase.READY,),
    "send": (TransactionPhase.IN_TRANSACTION,),
    "send_offsets_to_transaction": (TransactionPhase.IN_TRANSACTION,),
    "commit_transaction": (TransactionPhase.IN_TRANSACTION, TransactionPhase.COMMITTING),
    "abort_transaction": (TransactionPhase.IN_TRANSACTION, TransactionPhase.MUST_ABORT, TransactionPhase.ABORTING),
}
"""The states in which a call makes sense; a commit or an abort that timed out may be repeated."""


class Transactions:
    """Of one producer with a `transactional.id`. It alone knows the states; the sender asks it what may be sent."""

    def __init__(
        self, cluster: Cluster, options: Options, identity: ProducerIdentity, pump: Callable[[], None]
    ) -> None:
        self.transactional_id: str = options["transactional.id"]
        self.state = TransactionPhase.UNINITIALIZED
        self.error: KafkaError | None = None
        self._cluster = cluster
        self._timeout_ms: int = options["transaction.timeout.ms"]
        self._identity = identity
        self._pump = pump
        self._added: dict[TopicPartition, None] = {}
        self._adding: dict[TopicPartition, None] = {}
        self._adder: asyncio.Task[None] | None = None
        self._is_begun = False
        """Whether the coordinator knows of the transaction: something was sent in it."""
        self._needs_new_epoch = False
        self._adds_implicitly = False

    # What the producer asks

    def check(self, call: str) -> None:
        """IllegalState unless the call makes sense now; a fenced producer says so, and a failed transaction why."""
        if self.state in ALLOWED[call]:
            return
        if self.state in (TransactionPhase.FENCED, TransactionPhase.MUST_ABORT) and self.error is not None:
            raise self.error
        raise IllegalState(f"{call}() is not allowed {_DESCRIPTIONS[self.state]}")

    async def init(self, deadline: Deadline) -> None:
        self.check("init_transactions")
        await self._cluster.persist(
            self._initialize, deadline, "the transactional id was not initialized", setting="max.block.ms"
        )
        self.state = TransactionPhase.READY

    def begin(self) -> None:
        self.check("begin_transaction")
        self.state = TransactionPhase.IN_TRANSACTION

    async def end(self, *, committed: bool, deadline: Deadline) -> None:
        """After everything was sent, or dropped: tell the coordinator. Nothing sent means nothing to tell."""
        self.state = TransactionPhase.COMMITTING if committed else TransactionPhase.ABORTING
        if self._is_begun:
            what = f"the transaction was not {'committed' if committed else 'aborted'}"
            await self.guarded(lambda: self._end(committed), deadline, what)
        if self._needs_new_epoch and not self._adds_implicitly:
            await self._cluster.persist(self._initialize, deadline, "no new epoch was given", setting="max.block.ms")
        self.completed()

    def completed(self) -> None:
        """The coordinator has ended the transaction."""
        self._added.clear()
        self._adding.clear()
        self._is_begun = self._needs_new_epoch = False
        self.error = None
        self.state = TransactionPhase.READY

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata, deadline: Deadline
    ) -> None:
        self.check("send_offsets_to_transaction")
        if not offsets:
            return
        if not self._adds_implicitly:
            await self.guarded(lambda: self._add_offsets(group.group_id), deadline, "the group was not added")
        self._is_begun = True
        await self.guarded(lambda: self._commit_offsets(offsets, group), deadline, "the offsets were not sent")

    def lost(self, error: KafkaError) -> None:
        """A batch was lost: the transaction cannot be committed any more."""
        if self.state is TransactionPhase.FENCED:
            return
        if error.fatal or isinstance(error, ProducerFenced):
            self.state, self.error = TransactionPhase.FENCED, error
        elif self.state in (TransactionPhase.IN_TRANSACTION, TransactionPhase.COMMITTING):
            self._must_abort(error)
            self._needs_new_epoch = True

    def stop(self) -> None:
        if self._adder is not None:
            self._adder.cancel()

    @property
    def has_begun(self) -> bool:
        """Whether something was sent in the transaction."""
        return self._is_begun

    # What the sender asks

    @property
    def adds_implicitly(self) -> bool:
        return self._adds_implicitly

    def lets_through(self, queue: PartitionQueue) -> bool:
        """Whether the queue's partition is part of the transaction; if not, that is seen to."""
        if self.state not in (TransactionPhase.IN_TRANSACTION, TransactionPhase.COMMITTING):
            return False
        partition = TopicPartition(queue.topic, queue.partition)
        if self._adds_implicitly:
            self._is_begun = True
            return True
        if partition in self._added:
            return True
        self._adding[partition] = None
        if self._adder is None:
            self._adder = background(self._add_partitions())
        return False

    # Requests

    async def _initialize(self) -> None:
        identity = self._identity
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
        )
        response: InitProducerIdResponse = await self._ask(request)
        self._check_code(response.error_code)
        identity.become(response.producer_id, response.producer_epoch)
        coordinator = await self._cluster.coordinator(CoordinatorKind.TRANSACTION, self.transactional_id)
        level = self._cluster.node(coordinator).features.get(TRANSACTION_VERSION, 0)
        self._adds_implicitly = level >= IMPLICIT_ADD_VERSION

    async def _end(self, committed: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.producer_epoch,
            committed=committed,
        )
        at_most = None if self._adds_implicitly else EPOCH_BUMP_SINCE - 1
        response: EndTxnResponse = await self._ask(request, at_most=at_most)
        self._check_code(response.error_code)
        if response.producer_id >= 0 and self._adds_implicitly:
            self._identity.become(response.producer_id, response.producer_epoch)

    async def _add_partitions(self) -> None:
        """Add what waits, until nothing does; batches that came meanwhile go in the next round."""
        deadline = Deadline(self._cluster.world.clock, None)
        try:
            while self._adding:
                wanted = list(self._adding)
                await self._cluster.persist(partial(self._add, wanted), deadline, "partitions were not added")
                for partition in wanted:
                    self._adding.pop(partition, None)
                    self._added[partition] = None
                self._is_begun = True
        except KafkaError as error:
            self.lost(error)
        finally:
            self._adder = None
        self._pump()

    async def _add(self, wanted: list[TopicPartition]) -> None:
        topics: dict[str, list[int]] = {}
        for topic, partition in wanted:
            topics.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._identity.producer_id,
            v3_and_below_producer_epoch=self._identity.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=each) for name, each in topics.items()],
        )
        response: AddPartitionsToTxnResponse = await self._ask(request, at_most=BY_BROKERS_SINCE - 1)
        codes = [
            result.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        ]
        # One that is refused makes the others OPERATION_NOT_ATTEMPTED, which says nothing.
        told = [code for code in codes if code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED)]
        if told:
            self._check_code(told[0])

    async def _add_offsets(self, group_id: str) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.producer_epoch,
            group_id=group_id,
        )
        response = await self._ask(request, at_most=LAST_OLD_ADD_OFFSETS if not self._adds_implicitly else None)
        self._check_code(response.error_code)

    async def _commit_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata) -> None:
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group.group_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.producer_epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=_by_topic(offsets),
        )
        at_most = None if self._adds_implicitly else IMPLICIT_ADD_SINCE - 1
        response: TxnOffsetCommitResponse = await self._ask(
            request, kind=CoordinatorKind.GROUP, key=group.group_id, at_most=at_most
        )
        for topic in response.topics:
            for partition in topic.partitions:
                code = partition.error_code
                if code in ELSEWHERE:
                    self._cluster.forget_coordinator(CoordinatorKind.GROUP, group.group_id)
                if code != ErrorCode.NONE:
                    raise self._refusal(code, f"offset of {topic.name}-{partition.partition_index}")

    async def _ask(
        self,
        request: Request[T],
        *,
        kind: CoordinatorKind = CoordinatorKind.TRANSACTION,
        key: str | None = None,
        at_most: int | None = None,
    ) -> T:
        key = self.transactional_id if key is None else key
        coordinator = await self._cluster.coordinator(kind, key)
        try:
            return await self._cluster.call(coordinator, request, at_most=at_most)
        except KafkaError:
            self._cluster.forget_coordinator(kind, key)
            raise

    def _check_code(self, code: int) -> None:
        if code in ELSEWHERE:
            self._cluster.forget_coordinator(CoordinatorKind.TRANSACTION, self.transactional_id)
        if code != ErrorCode.NONE:
            raise self._refusal(code, f"transactional id {self.transactional_id!r}")

    def _refusal(self, code: int, context: str) -> KafkaError:
        """Old brokers say INVALID_PRODUCER_EPOCH where newer ones say PRODUCER_FENCED; it is the same thing here."""
        error = error_for(ErrorCode.PRODUCER_FENCED if code in FENCING else code, context=context)
        if code in GROUP_FAULTS:
            error.needs_abort = True
        return error

    async def guarded(self, attempt: Callable[[], Awaitable[T]], deadline: Deadline, what: str) -> T:
        """Persist; an error that is for good changes what may be done next."""
        try:
            return await self._cluster.persist(attempt, deadline, what, setting="max.block.ms")
        except KafkaError as error:
            if error.fatal:
                self.state, self.error = TransactionPhase.FENCED, error
            elif not error.retriable:
                self._must_abort(error)
            raise

    def _must_abort(self, error: KafkaError) -> None:
        self.state, self.error = TransactionPhase.MUST_ABORT, error
        # Of two timeouts, that of a call and that of a batch, only one is mended by calling again.
        error.needs_abort = True


_DESCRIPTIONS = {
    TransactionPhase.UNINITIALIZED: "before init_transactions()",
    TransactionPhase.READY: "outside of a transaction: call begin_transaction() first",
    TransactionPhase.IN_TRANSACTION: "inside a transaction",
    TransactionPhase.COMMITTING: "while the transaction is being committed",
    TransactionPhase.ABORTING: "while the transaction is being aborted",
    TransactionPhase.MUST_ABORT: "before abort_transaction(): the transaction has failed",
    TransactionPhase.FENCED: "any more: another producer has this transactional.id",
}


def _by_topic(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> list[TxnOffsetCommitRequestTopic]:
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for (name, partition), position in offsets.items():
        topic = topics.setdefault(name, TxnOffsetCommitRequestTopic(name=name, partitions=[]))
        topic.partitions.append(
            TxnOffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=position.offset,
                committed_leader_epoch=-1 if position.leader_epoch is None else position.leader_epoch,
                committed_metadata=position.metadata,
            )
        )
    return list(topics.values())
