"""TxnOffsetCommit v0-5. v2 leader epochs, v3 fencing by generation (KIP-447), v5 adds its group (KIP-890)."""

from collections.abc import Sequence

from levada.broker.route import Request
from levada.broker.verification import IMPLICIT_ADD, as_retriable
from levada.groups import CommittedOffset, NewOffset
from levada.model.errors import ErrorCode, KafkaError
from levada.model.topics import CONSUMER_OFFSETS
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

API = ApiKey.TXN_OFFSET_COMMIT
VERSIONS = stable_versions(API)

ADDS_SINCE = 5
ABORTABLE_SINCE = 4


async def handle(message: TxnOffsetCommitRequest, request: Request) -> TxnOffsetCommitResponse:
    now_ms = request.broker.clock.now_ms()
    accepted: list[tuple[TxnOffsetCommitResponsePartition, NewOffset]] = []
    topics = [
        TxnOffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                TxnOffsetCommitResponsePartition(partition_index=one.partition_index) for one in topic.partitions
            ],
        )
        for topic in message.topics
    ]
    for wanted, answer in zip(message.topics, topics):
        known = request.broker.image.topics.get(wanted.name)
        for one, partition in zip(wanted.partitions, answer.partitions):
            if known is None or not 0 <= one.partition_index < len(known.partitions):
                partition.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            committed = CommittedOffset(
                one.committed_offset, one.committed_leader_epoch, one.committed_metadata or "", now_ms
            )
            accepted.append((partition, NewOffset(wanted.name, one.partition_index, committed)))
    if accepted:
        codes = await _commit(message, [new for _, new in accepted], request)
        for (partition, _), code in zip(accepted, codes):
            partition.error_code = code
    return TxnOffsetCommitResponse(topics=topics)


async def _commit(message: TxnOffsetCommitRequest, new: Sequence[NewOffset], request: Request) -> Sequence[ErrorCode]:
    try:
        refusal = await _verify(message, request)
        if refusal:
            return [refusal] * len(new)
        codes: list[ErrorCode] = await request.broker.groups.submit(
            message.group_id,
            lambda machine, token, now_ms: machine.commit_in_transaction(token, message, request.version, new, now_ms),
        )
    except KafkaError as error:
        return [error.code] * len(new)
    return codes


async def _verify(message: TxnOffsetCommitRequest, request: Request) -> ErrorCode:
    """The transaction must have the group's partition among its own, or gets it now."""
    broker = request.broker
    partition = CONSUMER_OFFSETS, broker.groups.partition_of(message.group_id)
    producer = message.transactional_id, message.producer_id, message.producer_epoch
    try:
        if request.version >= ADDS_SINCE:
            code: ErrorCode = await broker.transactions.submit(
                message.transactional_id,
                lambda machine, token, now_ms: machine.add_partitions(
                    token, *producer, [partition], IMPLICIT_ADD, now_ms
                ),
            )
        elif broker.config["transaction.partition.verification.enable"]:
            codes: dict[tuple[str, int], ErrorCode] = await broker.transactions.submit(
                message.transactional_id,
                lambda machine, token, _: machine.verify_partitions(token, *producer, [partition]),
            )
            code = codes[partition]
        else:
            return ErrorCode.NONE
    except KafkaError as error:
        code = error.code
    if code == ErrorCode.TRANSACTION_ABORTABLE and request.version < ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    return as_retriable(
        code, knows_concurrent=request.version >= ADDS_SINCE, otherwise=ErrorCode.COORDINATOR_NOT_AVAILABLE
    )
