"""Offsets as OffsetCommit and OffsetFetch carry them."""

from collections.abc import Collection, Iterable, Mapping

from levada.client.cluster import NO_EPOCH, ClusterView
from levada.client.consumer.member_state import NO_GENERATION
from levada.client.types import GroupMetadata, OffsetAndMetadata, TopicPartition
from levada.model.error_codes import ErrorCode
from levada.protocol.declare import NO_UUID
from levada.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from levada.protocol.messages.offset_fetch import (
    MANY_GROUPS_SINCE,
    STABLE_SINCE,
    TOPIC_IDS_SINCE,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

NO_OFFSET = -1

Codes = dict[TopicPartition, int]


def newest_version(partitions: Iterable[TopicPartition], view: ClusterView) -> int | None:
    """The newest to use of OffsetCommit and OffsetFetch alike: ids can be spoken of only where they are known."""
    known = view.topics
    return (
        None
        if all(one.topic in known and known[one.topic].topic_id != NO_UUID for one in partitions)
        else TOPIC_IDS_SINCE - 1
    )


def commit_request(
    who: GroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata], view: ClusterView
) -> OffsetCommitRequest:
    topics = [
        OffsetCommitRequestTopic(
            name=topic,
            topic_id=_topic_id(topic, view),
            partitions=[_committed(index, offsets[TopicPartition(topic, index)]) for index in indexes],
        )
        for topic, indexes in by_topic(offsets).items()
    ]
    return OffsetCommitRequest(
        group_id=who.group_id,
        generation_id_or_member_epoch=who.generation_id,
        member_id=who.member_id,
        group_instance_id=who.group_instance_id,
        topics=topics,
    )


def commit_codes(response: OffsetCommitResponse, view: ClusterView) -> Codes:
    return {
        TopicPartition(topic.name or view.names.get(topic.topic_id, ""), partition.partition_index): (
            partition.error_code
        )
        for topic in response.topics
        for partition in topic.partitions
    }


def fetch_request(
    who: GroupMetadata,
    partitions: Collection[TopicPartition],
    view: ClusterView,
    version: int,
    *,
    require_stable: bool,
) -> OffsetFetchRequest:
    wanted = by_topic(partitions)
    stable = require_stable and version >= STABLE_SINCE
    if version < MANY_GROUPS_SINCE:
        names = [OffsetFetchRequestTopic(name=topic, partition_indexes=indexes) for topic, indexes in wanted.items()]
        return OffsetFetchRequest(group_id=who.group_id, topics=names, require_stable=stable)
    group = OffsetFetchRequestGroup(
        group_id=who.group_id,
        member_id=who.member_id if who.generation_id != NO_GENERATION else None,
        member_epoch=who.generation_id,
        topics=[
            OffsetFetchRequestTopics(name=topic, topic_id=_topic_id(topic, view), partition_indexes=indexes)
            for topic, indexes in wanted.items()
        ],
    )
    return OffsetFetchRequest(groups=[group], require_stable=stable)


def fetch_code(response: OffsetFetchResponse) -> int:
    """The first thing that is wrong, of the group or of a partition."""
    code = response.groups[0].error_code if response.groups else response.error_code
    codes = (partition.error_code for topic in _topics(response) for partition in topic.partitions)
    return next((each for each in (code, *codes) if each != ErrorCode.NONE), ErrorCode.NONE)


def fetched_offsets(response: OffsetFetchResponse, view: ClusterView) -> dict[TopicPartition, OffsetAndMetadata]:
    """What is committed; partitions without an offset are left out."""
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    for topic in _topics(response):
        name = topic.name or view.names.get(getattr(topic, "topic_id", NO_UUID), "")
        for partition in topic.partitions:
            if partition.committed_offset == NO_OFFSET:
                continue
            epoch = partition.committed_leader_epoch
            found[TopicPartition(name, partition.partition_index)] = OffsetAndMetadata(
                partition.committed_offset, partition.metadata or "", None if epoch == NO_EPOCH else epoch
            )
    return found


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, index in partitions:
        found.setdefault(topic, []).append(index)
    return found


def _topics(response: OffsetFetchResponse) -> Iterable[OffsetFetchResponseTopic | OffsetFetchResponseTopics]:
    return response.groups[0].topics if response.groups else response.topics


def _topic_id(topic: str, view: ClusterView) -> bytes:
    known = view.topics.get(topic)
    return NO_UUID if known is None else known.topic_id


def _committed(index: int, position: OffsetAndMetadata) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=position.offset,
        committed_leader_epoch=NO_EPOCH if position.leader_epoch is None else position.leader_epoch,
        committed_metadata=position.metadata,
    )
