"""OffsetFetch v1-10. v2 null is all, v5 leader epochs, v7 stable offsets, v8 many groups (KIP-709), v10 topic ids."""

from collections.abc import Mapping

from penstock.broker.route import Request
from penstock.groups import CommittedOffset
from penstock.model.errors import ErrorCode
from penstock.protocol.api import ApiKey, stable_versions
from penstock.protocol.declare import NO_UUID
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

API = ApiKey.OFFSET_FETCH
VERSIONS = stable_versions(API)

NOTHING_COMMITTED = CommittedOffset(offset=-1, leader_epoch=-1, metadata="")


def handle(message: OffsetFetchRequest, request: Request) -> OffsetFetchResponse:
    if request.version >= 8:
        return OffsetFetchResponse(
            groups=[
                OffsetFetchResponseGroup(
                    group_id=group.group_id, topics=_committed(group.group_id, group.topics, request)
                )
                for group in message.groups
            ]
        )
    wanted = None
    if message.topics is not None:
        wanted = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in message.topics
        ]
    topics = _committed(message.group_id, wanted, request)
    return OffsetFetchResponse(topics=[_as_single_group(topic) for topic in topics])


def _committed(
    group_id: str, wanted: list[OffsetFetchRequestTopics] | None, request: Request
) -> list[OffsetFetchResponseTopics]:
    offsets = request.broker.groups.committed(group_id)
    if wanted is None:
        return _all(offsets, request)
    return [_answer(topic, offsets, request) for topic in wanted]


def _all(offsets: Mapping[str, Mapping[int, CommittedOffset]], request: Request) -> list[OffsetFetchResponseTopics]:
    answers = []
    for name, partitions in offsets.items():
        topic = request.broker.image.topics.get(name)
        if topic is None and request.version >= 10:
            continue
        answers.append(
            OffsetFetchResponseTopics(
                name=name,
                topic_id=NO_UUID if topic is None else topic.topic_id,
                partitions=[_partition(index, committed) for index, committed in partitions.items()],
            )
        )
    return answers


def _answer(
    wanted: OffsetFetchRequestTopics, offsets: Mapping[str, Mapping[int, CommittedOffset]], request: Request
) -> OffsetFetchResponseTopics:
    """What was never committed has offset -1 and no error; only an id that names no topic is one."""
    name: str | None = wanted.name
    if request.version >= 10:
        topic = request.broker.image.topic_by_id(wanted.topic_id)
        name = None if topic is None else topic.name
    committed = {} if name is None else offsets.get(name, {})
    code = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.NONE
    return OffsetFetchResponseTopics(
        name=wanted.name,
        topic_id=wanted.topic_id,
        partitions=[
            _partition(index, committed.get(index, NOTHING_COMMITTED), code) for index in wanted.partition_indexes
        ],
    )


def _partition(
    index: int, committed: CommittedOffset, code: ErrorCode = ErrorCode.NONE
) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=code,
    )


def _as_single_group(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic:
    """The shape of versions before 8."""
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(
                partition_index=partition.partition_index,
                committed_offset=partition.committed_offset,
                committed_leader_epoch=partition.committed_leader_epoch,
                metadata=partition.metadata,
                error_code=partition.error_code,
            )
            for partition in topic.partitions
        ],
    )
