"""OffsetForLeaderEpoch v2-4. Where an epoch ended (KIP-101, KIP-320); v3 names the asking replica, v4 flexible."""

from levada.broker.route import Request
from levada.model.errors import ApiError
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.declare import NO_UUID
from levada.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

API = ApiKey.OFFSET_FOR_LEADER_EPOCH
VERSIONS = stable_versions(API)


def handle(message: OffsetForLeaderEpochRequest, request: Request) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[_answer(topic.topic, wanted, request) for wanted in topic.partitions]
            )
            for topic in message.topics
        ]
    )


def _answer(topic: str, wanted: OffsetForLeaderPartition, request: Request) -> EpochEndOffset:
    answer = EpochEndOffset(partition=wanted.partition)
    try:
        partition = request.broker.partition(topic, NO_UUID, wanted.partition)
        partition.check_epoch(wanted.current_leader_epoch)
        log = partition.log
        answer.leader_epoch, answer.end_offset = log.epochs.end_offset_of(wanted.leader_epoch, log.end_offset)
    except ApiError as error:
        answer.error_code = error.code
    return answer
