"""What is known of one transactional id, and how it becomes what follows."""

from collections.abc import Collection, Iterable
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

from levada.coordination.decision import Record
from levada.transactions.records import (
    NO_EPOCH,
    NO_GROUP,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from levada.transactions.settings import EPOCH_BUMP_VERSION
from levada.transactions.states import BY_NUMBER, NEXT, TransactionState

TopicPartition: TypeAlias = tuple[str, int]

MAX_EPOCH = 2**15 - 1
MAX_CLIENT_EPOCH = MAX_EPOCH - 1
"""The last one that a client is given, so that there is one more to fence it with."""

MAX_INT32 = 2**31 - 1
CLASSIC_VERSION = 0


class Transaction(NamedTuple):
    """A tuple, because every step makes another one, and a frozen dataclass takes long to make."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    updated_ms: int
    started_ms: int = NO_TIMESTAMP
    partitions: frozenset[TopicPartition] = frozenset()
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the last transition, which is nearly always the same."""
    next_producer_id: int = NO_PRODUCER_ID
    """With which the producer goes on when this transaction has used up the last epoch."""
    last_producer_epoch: int = NO_EPOCH
    """The epoch before the last bump, if the same instance asked for it. Memory alone knows it, as in Apache."""
    client_version: int = CLASSIC_VERSION
    """The transaction version in which the client speaks, or in which the coordinator ended it."""
    group: bytes = NO_GROUP
    """Of the group commit that committed it."""

    @property
    def is_exhausted(self) -> bool:
        return self.producer_epoch >= MAX_CLIENT_EPOCH

    @property
    def bumps_epoch(self) -> bool:
        return self.client_version >= EPOCH_BUMP_VERSION

    @property
    def next_identity(self) -> tuple[int, int]:
        """Producer id and epoch with which the producer goes on when all partitions know the outcome."""
        has_next = self.bumps_epoch and self.next_producer_id != NO_PRODUCER_ID
        return (self.next_producer_id, 0) if has_next else (self.producer_id, self.producer_epoch)

    def is_at(self, producer_id: int, producer_epoch: int) -> bool:
        return (self.producer_id, self.producer_epoch) == (producer_id, producer_epoch)

    def was_at(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether this id and epoch were those of the transaction that ended last, before it bumped them (KIP-890)."""
        is_new_id = self.previous_producer_id == producer_id and self.producer_epoch == 0
        if is_new_id and producer_epoch == MAX_CLIENT_EPOCH:
            return True
        return self.producer_id == producer_id and self.producer_epoch == producer_epoch + 1

    def is_timed_out(self, now_ms: int) -> bool:
        # The largest timeout stands for none: Apache keeps it for two-phase commits of others (KIP-939).
        return (
            self.state is TransactionState.ONGOING
            and self.timeout_ms != MAX_INT32
            and self.started_ms + self.timeout_ms < now_ms
        )

    def initialized(self, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int) -> "Transaction":
        """A producer begins, or goes on after an error."""
        return self._moved(
            TransactionState.EMPTY,
            now_ms,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            started_ms=NO_TIMESTAMP,
        )

    def rotated(self, producer_id: int, last_epoch: int, timeout_ms: int, now_ms: int) -> "Transaction":
        """The epochs of the producer id are used up: begin with another."""
        return self.initialized(0, last_epoch, timeout_ms, now_ms)._replace(producer_id=producer_id)

    def grown(self, partitions: Iterable[TopicPartition], client_version: int, now_ms: int) -> "Transaction":
        """More partitions belong to the transaction; the first ones begin it."""
        return self._moved(
            TransactionState.ONGOING,
            now_ms,
            partitions=self.partitions.union(partitions),
            started_ms=self.started_ms if self.state is TransactionState.ONGOING else now_ms,
            client_version=client_version,
        )

    def prepared(
        self, state: TransactionState, client_version: int, next_producer_id: int, now_ms: int, group: bytes = NO_GROUP
    ) -> "Transaction":
        """The outcome is decided; in version 2 with a new epoch, so that nothing late can slip into what follows."""
        epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
        if client_version >= EPOCH_BUMP_VERSION:
            epoch, last_epoch = min(epoch + 1, MAX_EPOCH), epoch
        return self._moved(
            state,
            now_ms,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            next_producer_id=next_producer_id,
            # An abort of what never began has no beginning either, but a completed one must have one.
            started_ms=self.started_ms if self.state is TransactionState.ONGOING else now_ms,
            client_version=client_version,
            group=group,
        )

    def fenced(self, server_version: int, next_producer_id: int, now_ms: int) -> "Transaction":
        """Abort of what its producer may not go on with: the epoch is bumped, whatever version the client speaks."""
        if server_version >= EPOCH_BUMP_VERSION:
            return self.prepared(TransactionState.PREPARE_ABORT, server_version, next_producer_id, now_ms)
        bumped = self._replace(producer_epoch=min(self.producer_epoch + 1, MAX_EPOCH), last_producer_epoch=NO_EPOCH)
        return bumped.prepared(TransactionState.PREPARE_ABORT, CLASSIC_VERSION, NO_PRODUCER_ID, now_ms)

    def completed(self, now_ms: int) -> "Transaction":
        """All partitions know the outcome."""
        is_commit = self.state is TransactionState.PREPARE_COMMIT
        producer_id, producer_epoch = self.next_identity
        return self._moved(
            TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
            now_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
            # It stays for a producer that did not get the reply and asks again.
            group=self.group,
        )

    def _moved(self, state: TransactionState, now_ms: int, *, group: bytes = NO_GROUP, **changes: Any) -> "Transaction":
        assert state in NEXT[self.state], f"{self.state} -> {state}"
        return self._replace(
            state=state, previous_producer_id=self.producer_id, updated_ms=now_ms, group=group, **changes
        )


def by_topic(partitions: Collection[TopicPartition]) -> list[tuple[str, list[int]]]:
    """In the order of their names and numbers."""
    if len(partitions) == 1:
        return [(topic, [partition]) for topic, partition in partitions]
    topics = groupby(sorted(partitions), key=lambda one: one[0])
    return [(topic, [partition for _, partition in of_topic]) for topic, of_topic in topics]


def record_of(transaction: Transaction) -> Record:
    is_empty = transaction.state is TransactionState.EMPTY
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state.number,
        transaction_partitions=None
        if is_empty
        else [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in by_topic(transaction.partitions)],
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        client_transaction_version=transaction.client_version,
        group_commit=transaction.group,
    )
    return Record(TransactionLogKey(transactional_id=transaction.transactional_id), value)


def removal_of(transactional_id: str) -> Record:
    return Record(TransactionLogKey(transactional_id=transactional_id), None)


def transaction_from(transactional_id: str, value: TransactionLogValue) -> Transaction | None:
    """None for a state that this release does not know."""
    state = BY_NUMBER.get(value.transaction_status)
    if state is None:
        return None
    partitions = [(one.topic, index) for one in value.transaction_partitions or () for index in one.partition_ids]
    return Transaction(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        state,
        value.transaction_last_update_timestamp_ms,
        value.transaction_start_timestamp_ms,
        frozenset(partitions),
        value.previous_producer_id,
        value.next_producer_id,
        client_version=value.client_transaction_version,
        group=bytes(value.group_commit),
    )
