"""OffsetCommit v2-10. v5 no retention (KIP-211), v6 leader epochs, v7 static members, v8 flexible, v10 topic ids."""

from collections.abc import Awaitable

from levada.broker.group_requests import ask
from levada.broker.route import Request
from levada.groups import CommittedOffset, NewOffset
from levada.groups.offsets import NEVER
from levada.metadata.image import TopicState
from levada.model.errors import ErrorCode
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

API = ApiKey.OFFSET_COMMIT
VERSIONS = stable_versions(API)

BROKERS_CHOICE = -1
"""The retention time that leaves it to the broker how long an offset is kept."""


def handle(message: OffsetCommitRequest, request: Request) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    now_ms = request.broker.clock.now_ms()
    expires_ms = NEVER if message.retention_time_ms == BROKERS_CHOICE else now_ms + message.retention_time_ms
    accepted: list[tuple[OffsetCommitResponsePartition, NewOffset]] = []
    topics = [_look_up(wanted, request, accepted, now_ms, expires_ms) for wanted in message.topics]
    if not accepted:
        return OffsetCommitResponse(topics=topics)
    new = [one for _, one in accepted]

    def answer(codes: list[ErrorCode]) -> OffsetCommitResponse:
        for (partition, _), code in zip(accepted, codes):
            partition.error_code = _as_known(code, request.version)
        return OffsetCommitResponse(topics=topics)

    return ask(
        request,
        message.group_id,
        lambda machine, token, now_ms: machine.commit(token, message, request.version, new, now_ms),
        answer,
        lambda code: answer([code] * len(new)),
    )


def _look_up(
    wanted: OffsetCommitRequestTopic,
    request: Request,
    accepted: list[tuple[OffsetCommitResponsePartition, NewOffset]],
    now_ms: int,
    expires_ms: int,
) -> OffsetCommitResponseTopic:
    """Refuse partitions that do not exist, and note those that do."""
    image = request.broker.image
    topic = image.topic_by_id(wanted.topic_id) if request.version >= 10 else image.topics.get(wanted.name)
    answers = [
        OffsetCommitResponsePartition(
            partition_index=partition.partition_index, error_code=_refusal(topic, partition, request)
        )
        for partition in wanted.partitions
    ]
    if topic is not None:
        accepted += [
            (answer, _new_offset(topic, wanted, partition, now_ms, expires_ms))
            for answer, partition in zip(answers, wanted.partitions)
            if not answer.error_code
        ]
    return OffsetCommitResponseTopic(name=wanted.name, topic_id=wanted.topic_id, partitions=answers)


def _refusal(topic: TopicState | None, partition: OffsetCommitRequestPartition, request: Request) -> ErrorCode:
    if topic is None and request.version >= 10:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if topic is None or not 0 <= partition.partition_index < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _new_offset(
    topic: TopicState,
    wanted: OffsetCommitRequestTopic,
    partition: OffsetCommitRequestPartition,
    now_ms: int,
    expires_ms: int,
) -> NewOffset:
    committed = CommittedOffset(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        committed_ms=now_ms,
        expires_ms=expires_ms,
        topic_id=wanted.topic_id,
    )
    return NewOffset(topic.name, partition.partition_index, committed)


def _as_known(code: ErrorCode, version: int) -> ErrorCode:
    """Clients before version 9 do not expect to hear that a group is unknown."""
    return ErrorCode.ILLEGAL_GENERATION if code == ErrorCode.GROUP_ID_NOT_FOUND and version < 9 else code
