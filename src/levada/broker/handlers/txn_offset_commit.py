"""TxnOffsetCommit v0-5. v2 leader epochs, v3 fencing by generation (KIP-447), v5 adds its group (KIP-890)."""

from collections.abc import Awaitable, Iterator, Mapping, Sequence
from typing import TypeAlias

from levada.broker.route import Request
from levada.broker.turns import AT_ONCE, after
from levada.broker.verification import IMPLICIT_ADD, as_retriable
from levada.coordination.decision import Record
from levada.groups import CommittedOffset, commit_record
from levada.model.error_codes import ErrorCode
from levada.model.errors import ApiError
from levada.model.topics import CONSUMER_OFFSETS
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.txn_offset_commit import (
    IMPLICIT_ADD_SINCE,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

API = ApiKey.TXN_OFFSET_COMMIT
VERSIONS = stable_versions(API)

ABORTABLE_SINCE = 4


Accepted: TypeAlias = list[tuple[TxnOffsetCommitResponsePartition, Record]]


def handle(
    message: TxnOffsetCommitRequest, request: Request
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    topics: list[TxnOffsetCommitResponseTopic] = []
    accepted: Accepted = []
    count = sum([len(topic.partitions) for topic in message.topics])
    return after(
        _look_up(message, request, topics, accepted),
        count,
        request,
        lambda: _answer(message, request, topics, accepted),
    )


def _look_up(
    message: TxnOffsetCommitRequest, request: Request, topics: list[TxnOffsetCommitResponseTopic], accepted: Accepted
) -> Iterator[None]:
    """Refuse partitions that do not exist, and make records of those that do."""
    # The coordinator's time: by it offsets expire, and are older or younger than a deletion.
    now_ms = request.broker.groups.now_ms()
    producer = message.producer_id, message.producer_epoch
    count = 0
    for wanted in message.topics:
        known = request.broker.image.topics.get(wanted.name)
        answers: list[TxnOffsetCommitResponsePartition] = []
        topics.append(TxnOffsetCommitResponseTopic(name=wanted.name, partitions=answers))
        for one in wanted.partitions:
            answers.append(TxnOffsetCommitResponsePartition(partition_index=one.partition_index))
            if known is None or not 0 <= one.partition_index < len(known.partitions):
                answers[-1].error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                committed = CommittedOffset(
                    offset=one.committed_offset,
                    leader_epoch=one.committed_leader_epoch,
                    metadata=one.committed_metadata or "",
                    committed_ms=now_ms,
                    topic_id=known.topic_id,
                )
                record = commit_record(message.group_id, wanted.name, one.partition_index, committed, *producer)
                accepted.append((answers[-1], record))
            count += 1
            if not count % AT_ONCE:
                yield


async def _answer(
    message: TxnOffsetCommitRequest, request: Request, topics: list[TxnOffsetCommitResponseTopic], accepted: Accepted
) -> TxnOffsetCommitResponse:
    if accepted:
        codes = await _commit(message, [record for _, record in accepted], request)
        for (partition, _), code in zip(accepted, codes):
            partition.error_code = code
    return TxnOffsetCommitResponse(topics=topics)


async def _commit(message: TxnOffsetCommitRequest, records: Sequence[Record], request: Request) -> Sequence[ErrorCode]:
    try:
        # The records are made before: the coordinator's answer is followed by the append, and no marker comes between.
        refusal = await _verify(message, request)
        if refusal:
            return [refusal] * len(records)
        codes: list[ErrorCode] = await request.broker.groups.submit(
            message.group_id,
            lambda machine, token, now_ms: machine.commit_in_transaction(
                token, message, request.version, records, now_ms
            ),
        )
    except ApiError as error:
        return [error.code] * len(records)
    return codes


async def _verify(message: TxnOffsetCommitRequest, request: Request) -> ErrorCode:
    """The transaction must have the group's partition among its own, or gets it now."""
    broker = request.broker
    partition = CONSUMER_OFFSETS, broker.groups.partition_of(message.group_id)
    producer = message.transactional_id, message.producer_id, message.producer_epoch
    try:
        if request.version >= IMPLICIT_ADD_SINCE:
            code: ErrorCode = await broker.transactions.submit(
                message.transactional_id,
                lambda machine, token, now_ms: machine.add_partitions(
                    token, *producer, [partition], IMPLICIT_ADD, now_ms
                ),
            )
        elif broker.config["transaction.partition.verification.enable"]:
            codes: Mapping[tuple[str, int], ErrorCode] = await broker.transactions.submit(
                message.transactional_id,
                lambda machine, token, _: machine.verify_partitions(token, *producer, [partition]),
            )
            code = codes[partition]
        else:
            return ErrorCode.NONE
    except ApiError as error:
        code = error.code
    if code == ErrorCode.TRANSACTION_ABORTABLE and request.version < ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    return as_retriable(
        code, knows_concurrent=request.version >= IMPLICIT_ADD_SINCE, otherwise=ErrorCode.COORDINATOR_NOT_AVAILABLE
    )
