"""OffsetCommit v2-10. v5 no retention (KIP-211), v6 leader epochs, v7 static members, v8 flexible, v10 topic ids."""

from collections.abc import Awaitable, Iterator
from typing import TypeAlias

from levada.broker.group_requests import ask
from levada.broker.route import Request
from levada.broker.turns import AT_ONCE, after
from levada.coordination.decision import Record
from levada.groups import CommittedOffset, commit_record
from levada.groups.offsets import NEVER
from levada.metadata.image import TopicState
from levada.model.error_codes import ErrorCode
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.declare import MAX_INT64
from levada.protocol.messages.offset_commit import (
    TOPIC_IDS_SINCE,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

API = ApiKey.OFFSET_COMMIT
VERSIONS = stable_versions(API)

GROUP_UNKNOWN_SINCE = 9
"""Clients are told that a group is unknown (KIP-848)."""
BROKERS_CHOICE = -1
"""The retention time that leaves it to the broker how long an offset is kept."""


Accepted: TypeAlias = list[tuple[OffsetCommitResponsePartition, Record]]


def handle(message: OffsetCommitRequest, request: Request) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    topics: list[OffsetCommitResponseTopic] = []
    accepted: Accepted = []
    count = sum([len(topic.partitions) for topic in message.topics])
    return after(
        _look_up(message, request, topics, accepted),
        count,
        request,
        lambda: _commit(message, request, topics, accepted),
    )


def _look_up(
    message: OffsetCommitRequest, request: Request, topics: list[OffsetCommitResponseTopic], accepted: Accepted
) -> Iterator[None]:
    """Refuse partitions that do not exist, and make records of those that do."""
    image = request.broker.image
    # The coordinator's time: by it offsets expire, and are older or younger than a deletion.
    now_ms = request.broker.groups.now_ms()
    retention_ms = message.retention_time_ms
    expires_ms = NEVER if retention_ms == BROKERS_CHOICE else min(now_ms + retention_ms, MAX_INT64)
    count = 0
    for wanted in message.topics:
        topic = (
            image.topic_by_id(wanted.topic_id) if request.version >= TOPIC_IDS_SINCE else image.topics.get(wanted.name)
        )
        answers: list[OffsetCommitResponsePartition] = []
        topics.append(OffsetCommitResponseTopic(name=wanted.name, topic_id=wanted.topic_id, partitions=answers))
        for partition in wanted.partitions:
            code = _refusal(topic, partition, request)
            answers.append(OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code))
            if topic is not None and not code:
                committed = CommittedOffset(
                    offset=partition.committed_offset,
                    leader_epoch=partition.committed_leader_epoch,
                    metadata=partition.committed_metadata or "",
                    committed_ms=now_ms,
                    expires_ms=expires_ms,
                    topic_id=topic.topic_id,
                )
                record = commit_record(message.group_id, topic.name, partition.partition_index, committed)
                accepted.append((answers[-1], record))
            count += 1
            if not count % AT_ONCE:
                yield


def _commit(
    message: OffsetCommitRequest, request: Request, topics: list[OffsetCommitResponseTopic], accepted: Accepted
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    if not accepted:
        return OffsetCommitResponse(topics=topics)
    records = [record for _, record in accepted]

    def answer(codes: list[ErrorCode]) -> OffsetCommitResponse:
        for (partition, _), code in zip(accepted, codes):
            partition.error_code = _as_known(code, request.version)
        return OffsetCommitResponse(topics=topics)

    return ask(
        request,
        message.group_id,
        lambda machine, token, now_ms: machine.commit(token, message, request.version, records, now_ms),
        answer,
        lambda code: answer([code] * len(records)),
    )


def _refusal(topic: TopicState | None, partition: OffsetCommitRequestPartition, request: Request) -> ErrorCode:
    if topic is None and request.version >= TOPIC_IDS_SINCE:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if topic is None or not 0 <= partition.partition_index < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _as_known(code: ErrorCode, version: int) -> ErrorCode:
    """Clients before version 9 do not expect to hear that a group is unknown, those of 10 go by ids."""
    if code == ErrorCode.GROUP_ID_NOT_FOUND and version < GROUP_UNKNOWN_SINCE:
        return ErrorCode.ILLEGAL_GENERATION
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and version >= TOPIC_IDS_SINCE:
        return ErrorCode.UNKNOWN_TOPIC_ID
    return code
