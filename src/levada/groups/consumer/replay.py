"""How a record changes the groups: the only way in which they do."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from levada.coordination.decision import Record
from levada.groups.consumer.group import NO_ASSIGNMENT, ConsumerGroup, ResolvedRegex
from levada.groups.consumer.member import (
    LEAVING,
    ConsumerGroupMember,
    assignment_fields,
    nothing,
    subscription_fields,
)
from levada.groups.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)


def replay(groups: dict[str, ConsumerGroup], record: Record) -> None:
    """Apply a record of keys 3 to 8 or 16; the end of what is not there changes nothing, as in a cleaned log."""
    key: Any = record.key
    value = record.value
    if isinstance(key, ConsumerGroupMetadataKey) and value is None:
        groups.pop(key.group_id, None)
        return
    group = groups.get(key.group_id)
    if group is None:
        if value is None:
            return
        group = groups[key.group_id] = ConsumerGroup(key.group_id)
    HANDLERS[type(key)](group, key, value)


def _epoch(group: ConsumerGroup, _: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue) -> None:
    group.epoch = value.epoch
    group.metadata_hash = value.metadata_hash


def _partition_metadata(
    group: ConsumerGroup, _: ConsumerGroupPartitionMetadataKey, value: ConsumerGroupPartitionMetadataValue | None
) -> None:
    group.has_partition_metadata = value is not None


def _subscription(
    group: ConsumerGroup, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
) -> None:
    if value is not None:
        member = group.members.get(key.member_id) or ConsumerGroupMember(key.member_id)
        group.update_member(replace(member, **subscription_fields(value)))
    elif key.member_id in group.members:
        group.remove_member(key.member_id)


def _target_epoch(
    group: ConsumerGroup,
    _: ConsumerGroupTargetAssignmentMetadataKey,
    value: ConsumerGroupTargetAssignmentMetadataValue | None,
) -> None:
    group.assignment_epoch = NO_ASSIGNMENT if value is None else value.assignment_epoch
    group.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp


def _target(
    group: ConsumerGroup,
    key: ConsumerGroupTargetAssignmentMemberKey,
    value: ConsumerGroupTargetAssignmentMemberValue | None,
) -> None:
    if value is None:
        group.targets.pop(key.member_id, None)
    else:
        group.targets[key.member_id] = {
            bytes(topic.topic_id): tuple(sorted(topic.partitions)) for topic in value.topic_partitions
        }


def _assignment(
    group: ConsumerGroup,
    key: ConsumerGroupCurrentMemberAssignmentKey,
    value: ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    member = group.members.get(key.member_id)
    if value is not None:
        member = member or ConsumerGroupMember(key.member_id)
        group.update_member(replace(member, **assignment_fields(value)))
    elif member is not None:
        gone = replace(member, epoch=LEAVING, previous_epoch=LEAVING, assigned=nothing(), revoking=nothing())
        group.update_member(gone)


def _regex(
    group: ConsumerGroup, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None
) -> None:
    resolved = None if value is None else ResolvedRegex(tuple(sorted(value.topics)), value.version, value.timestamp)
    group.update_regex(key.regular_expression, resolved)


HANDLERS: dict[type, Callable[[ConsumerGroup, Any, Any], None]] = {
    ConsumerGroupMetadataKey: _epoch,
    ConsumerGroupPartitionMetadataKey: _partition_metadata,
    ConsumerGroupMemberMetadataKey: _subscription,
    ConsumerGroupTargetAssignmentMetadataKey: _target_epoch,
    ConsumerGroupTargetAssignmentMemberKey: _target,
    ConsumerGroupCurrentMemberAssignmentKey: _assignment,
    ConsumerGroupRegularExpressionKey: _regex,
}
"""One for each type of key."""
