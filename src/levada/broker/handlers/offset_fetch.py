"""OffsetFetch v1-10. v2 null is all, v5 leader epochs, v7 stable offsets, v8 many groups (KIP-709), v10 topic ids."""

from collections.abc import Mapping

from levada.broker.route import Request
from levada.groups import Committed, CommittedOffset
from levada.metadata.image import TopicState
from levada.model.error_codes import ErrorCode
from levada.model.errors import ApiError
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.declare import NO_UUID
from levada.protocol.messages.offset_fetch import (
    MANY_GROUPS_SINCE,
    TOPIC_IDS_SINCE,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
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

GROUP_ERROR_SINCE = 2

NOTHING_COMMITTED = CommittedOffset(offset=-1, leader_epoch=-1, metadata="", committed_ms=-1)


async def handle(message: OffsetFetchRequest, request: Request) -> OffsetFetchResponse:
    if request.version >= MANY_GROUPS_SINCE:
        return OffsetFetchResponse(groups=[await _fetch(group, message, request) for group in message.groups])
    wanted = None
    if message.topics is not None:
        wanted = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in message.topics
        ]
    answer = await _fetch(OffsetFetchRequestGroup(group_id=message.group_id, topics=wanted), message, request)
    if answer.error_code and wanted is not None and request.version < GROUP_ERROR_SINCE:
        answer.topics = [_refused_topic(topic, answer.error_code) for topic in wanted]
    return OffsetFetchResponse(
        topics=[_as_single_group(topic) for topic in answer.topics], error_code=answer.error_code
    )


async def _fetch(
    wanted: OffsetFetchRequestGroup, message: OffsetFetchRequest, request: Request
) -> OffsetFetchResponseGroup:
    try:
        committed: Committed | ErrorCode = await request.broker.groups.submit(
            wanted.group_id,
            lambda machine, token, _: machine.committed(token, wanted, require_stable=message.require_stable),
        )
    except ApiError as error:
        committed = error.code
    if isinstance(committed, ErrorCode):
        return OffsetFetchResponseGroup(group_id=wanted.group_id, topics=[], error_code=committed)
    if wanted.topics is None:
        topics = _all(committed, request)
    else:
        topics = [_answer(topic, committed, request) for topic in wanted.topics]
    return OffsetFetchResponseGroup(group_id=wanted.group_id, topics=topics)


def _refused_topic(wanted: OffsetFetchRequestTopics, code: int) -> OffsetFetchResponseTopics:
    """Version 1 has no place for a group's error but its partitions."""
    return OffsetFetchResponseTopics(
        name=wanted.name,
        partitions=[_partition(index, NOTHING_COMMITTED, ErrorCode(code)) for index in wanted.partition_indexes],
    )


def _all(committed: Committed, request: Request) -> list[OffsetFetchResponseTopics]:
    answers = []
    for name, partitions in committed.offsets.items():
        topic = request.broker.image.topics.get(name)
        if topic is None and request.version >= TOPIC_IDS_SINCE:
            continue
        answer = OffsetFetchResponseTopics(
            name=name,
            topic_id=NO_UUID if topic is None else topic.topic_id,
            partitions=[
                _unstable(index) if (name, index) in committed.unstable else _partition(index, one)
                for index, one in partitions.items()
                if one.belongs_to(topic)
            ],
        )
        if answer.partitions:
            answers.append(answer)
    return answers


def _answer(wanted: OffsetFetchRequestTopics, committed: Committed, request: Request) -> OffsetFetchResponseTopics:
    """What was never committed has offset -1 and no error; only an id that names no topic is one."""
    image = request.broker.image
    name: str | None = wanted.name
    if request.version >= TOPIC_IDS_SINCE:
        name = image.topic_names.get(wanted.topic_id)
    topic = None if name is None else image.topics.get(name)
    of_topic: Mapping[int, CommittedOffset] = {} if name is None else committed.offsets.get(name, {})
    code = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.NONE
    return OffsetFetchResponseTopics(
        name=wanted.name,
        topic_id=wanted.topic_id,
        partitions=[
            _unstable(index)
            if (name, index) in committed.unstable
            else _partition(index, _of_this_topic(of_topic.get(index), topic), code)
            for index in wanted.partition_indexes
        ],
    )


def _unstable(index: int) -> OffsetFetchResponsePartitions:
    """A transaction under way may change it: a client that asks for what is certain comes again (KIP-447)."""
    return _partition(index, NOTHING_COMMITTED, ErrorCode.UNSTABLE_OFFSET_COMMIT)


def _of_this_topic(committed: CommittedOffset | None, topic: TopicState | None) -> CommittedOffset:
    return committed if committed is not None and committed.belongs_to(topic) else NOTHING_COMMITTED


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
