"""The records by which a consumer group changes."""

from collections.abc import Mapping, Sequence

from levada.coordination.decision import Record
from levada.groups.consumer.group import ConsumerGroup, ResolvedRegex
from levada.groups.consumer.member import ConsumerGroupMember, nothing
from levada.groups.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return Record(ConsumerGroupMetadataKey(group_id=group_id), value)


def subscription_record(group_id: str, member: ConsumerGroupMember) -> Record:
    key = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return Record(key, member.subscription())


def current_assignment_record(group_id: str, member: ConsumerGroupMember) -> Record:
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return Record(key, member.current_assignment())


def target_record(group_id: str, member_id: str, target: Mapping[bytes, Sequence[int]]) -> Record:
    topics = [TopicPartition(topic_id=topic_id, partitions=list(indexes)) for topic_id, indexes in target.items()]
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return Record(key, ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics))


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return Record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex | None) -> Record:
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    if resolved is None:
        return Record(key, None)
    value = ConsumerGroupRegularExpressionValue(
        topics=list(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )
    return Record(key, value)


def partition_metadata_tombstone(group_id: str) -> Record:
    return Record(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """The assignments first: a member without them owns no partition."""
    keys = (
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id),
    )
    return [Record(key, None) for key in keys]


def group_tombstones(group: ConsumerGroup, renamed: Mapping[str, str] = nothing()) -> list[Record]:
    """In the order in which Apache can replay them: no part outlives what it is a part of.

    A member that is renamed has been replaced by records that come before these.
    """
    group_id, member_ids = group.group_id, [renamed.get(member_id, member_id) for member_id in group.members]
    return [
        *(
            Record(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=one), None)
            for one in member_ids
        ),
        *(Record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=one), None) for one in member_ids),
        Record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *(Record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=one), None) for one in member_ids),
        *(regex_record(group_id, regex, None) for regex in group.resolved),
        partition_metadata_tombstone(group_id),
        Record(ConsumerGroupMetadataKey(group_id=group_id), None),
    ]


def replacement_records(group: ConsumerGroup, old: ConsumerGroupMember, new: ConsumerGroupMember) -> list[Record]:
    """A static member's successor takes its place, its target and what it has."""
    return [
        *member_tombstones(group.group_id, old.member_id),
        subscription_record(group.group_id, new),
        target_record(group.group_id, new.member_id, group.target_of(old.member_id)),
        current_assignment_record(group.group_id, new),
    ]
