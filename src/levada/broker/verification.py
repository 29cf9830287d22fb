"""Whether records belong to a transaction that is under way: its coordinator is asked before the first are taken.

Else records that come late could open a transaction that neither producer nor coordinator ends (KIP-890).
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct
from typing import TypeAlias

from levada.broker.broker import Broker
from levada.broker.partition import Partition
from levada.model.buffers import Buffer
from levada.model.error_codes import ErrorCode
from levada.model.errors import ApiError, InvalidTransactionState
from levada.protocol.messages.produce import IMPLICIT_ADD_SINCE, ProduceRequest
from levada.records.batch import HEADER_SIZE, TRANSACTIONAL_BIT

IMPLICIT_ADD = 5
"""The version of AddPartitionsToTxn in which a broker adds what its clients write to."""

PRODUCE_KNOWS_ABORTABLE_SINCE = 11

TopicPartition: TypeAlias = tuple[str, int]
Codes: TypeAlias = Mapping[TopicPartition, ErrorCode]

Guards: TypeAlias = Mapping[TopicPartition, tuple[int, int]]
"""For each partition a producer, and how many of its transactions had ended there when its records were verified."""

_PRODUCER = Struct(">21xh4x16xqh")
_UNAVAILABLE = frozenset(
    (
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)


@dataclass(frozen=True, slots=True)
class Unverified:
    """Partitions that a producer writes to for the first time in a transaction."""

    producer_id: int
    producer_epoch: int
    partitions: list[TopicPartition]


def unverified_of(message: ProduceRequest, broker: Broker) -> Unverified | ErrorCode | None:
    """What a coordinator must be asked about; a code if the request makes no sense, None if nothing is to ask."""
    producer: tuple[int, int] | None = None
    partitions: list[TopicPartition] = []
    for topic in message.topic_data:
        for data in topic.partition_data:
            own = _producer_of(data.records)
            if own is None:
                continue
            if producer is not None and own[0] != producer[0]:
                return ErrorCode.INVALID_PRODUCER_ID_MAPPING
            producer = own
            try:
                partition = broker.partition(topic.name, topic.topic_id, data.index)
            except ApiError:
                # It is refused for that when its turn comes.
                continue
            if not partition.has_transaction_of(*own):
                partitions.append((partition.topic, data.index))
    if producer is None or not partitions:
        return None
    return Unverified(*producer, partitions)


def guards_of(message: ProduceRequest, broker: Broker) -> Guards:
    """What tells, when records are appended in a later turn, whether their transaction has ended since (KIP-890)."""
    guards = {}
    for topic in message.topic_data:
        for data in topic.partition_data:
            own = _producer_of(data.records)
            if own is None:
                continue
            try:
                partition = broker.partition(topic.name, topic.topic_id, data.index)
            except ApiError:
                continue
            guards[partition.topic, data.index] = own[0], partition.log.producers.ends_of(own[0])
    return guards


def check_guard(guards: Guards, partition: Partition) -> None:
    guard = guards.get((partition.topic, partition.index))
    if guard is not None and partition.log.producers.ends_of(guard[0]) != guard[1]:
        raise InvalidTransactionState("the transaction has ended while its records were checked")


def ask_coordinator(
    unverified: Unverified, transactional_id: str, version: int, broker: Broker
) -> "asyncio.Future[ErrorCode | Codes]":
    """A future of a code for all, or of a code for each partition; ApiError if this broker does not coordinate it."""
    producer = transactional_id, unverified.producer_id, unverified.producer_epoch
    if version >= IMPLICIT_ADD_SINCE:
        return broker.transactions.submit(
            transactional_id,
            lambda machine, token, now_ms: machine.add_partitions(
                token, *producer, unverified.partitions, IMPLICIT_ADD, now_ms
            ),
        )
    return broker.transactions.submit(
        transactional_id,
        lambda machine, token, _: machine.verify_partitions(token, *producer, unverified.partitions),
    )


def refusals_of(answer: ErrorCode | Codes, unverified: Unverified, version: int) -> Codes:
    """The codes that a client of this version of Produce is told."""
    codes = dict.fromkeys(unverified.partitions, answer) if isinstance(answer, ErrorCode) else answer
    return {one: _as_known(code, version) for one, code in codes.items() if code}


def as_retriable(code: ErrorCode, *, knows_concurrent: bool, otherwise: ErrorCode) -> ErrorCode:
    """Older clients give up where they should come again; another code makes them do it."""
    if code == ErrorCode.PRODUCER_FENCED:
        # A producer knows of fencing by this name alone; the other belongs to requests to the coordinator.
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code not in _UNAVAILABLE or (code == ErrorCode.CONCURRENT_TRANSACTIONS and knows_concurrent):
        return code
    return otherwise


def _as_known(code: ErrorCode, version: int) -> ErrorCode:
    if code == ErrorCode.TRANSACTION_ABORTABLE and version < PRODUCE_KNOWS_ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    knows = version >= IMPLICIT_ADD_SINCE
    return as_retriable(code, knows_concurrent=knows, otherwise=ErrorCode.NOT_ENOUGH_REPLICAS)


def _producer_of(records: Buffer | None) -> tuple[int, int] | None:
    """Id and epoch in the header of a transactional batch; what is no batch is refused later."""
    if records is None or len(records) < HEADER_SIZE:
        return None
    attributes, producer_id, producer_epoch = _PRODUCER.unpack_from(records)
    return (producer_id, producer_epoch) if attributes & TRANSACTIONAL_BIT else None
