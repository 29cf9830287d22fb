"""Which member is to have which partitions: the group's target, made anew when its epoch has moved on."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from levada.coordination.decision import Record
from levada.groups.assignors import ASSIGNORS
from levada.groups.assignors.spec import AssignmentError, MemberSpec
from levada.groups.consumer.group import ConsumerGroup
from levada.groups.consumer.group_records import target_epoch_record, target_record
from levada.groups.consumer.member import ConsumerGroupMember, Target, nothing
from levada.groups.consumer.refusals import Refusal
from levada.groups.consumer.topics import subscribed_ids
from levada.metadata.image import Image
from levada.model.error_codes import ErrorCode

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MemberTarget:
    """What a member is to have, and as of which epoch."""

    epoch: int
    target: Target


def last_target(group: ConsumerGroup, member: ConsumerGroupMember) -> MemberTarget:
    return MemberTarget(group.assignment_epoch, group.target_of(member.member_id, member.instance_id))


def is_due(group: ConsumerGroup, epoch: int, interval_ms: int, now_ms: int) -> bool:
    """Whether there is to be a new target; many joins in a short time share one (KIP-1263)."""
    if group.assignment_epoch >= epoch:
        return False
    last_ms = group.assignment_timestamp_ms
    # Where the clock was set back the last time lies ahead, and it is unknown how long ago it was.
    is_recent = last_ms <= now_ms < last_ms + interval_ms
    return not last_ms or not is_recent


def new_target(
    group: ConsumerGroup,
    epoch: int,
    old: ConsumerGroupMember,
    member: ConsumerGroupMember,
    *,
    default_assignor: str,
    image: Image,
    now_ms: int,
) -> tuple[list[Record], MemberTarget]:
    """The records of a new target in which `member` has taken the place of `old`, and the member's own part."""
    votes = group.assignors.copy()
    votes.remove(() if old.assignor is None else (old.assignor,))
    votes.add(() if member.assignor is None else (member.assignor,))
    assignor = votes.most_named() or default_assignor
    specs = _specs(group, member, image)
    counts = {
        topic_id: len(image.topics[image.topic_names[topic_id]].partitions)
        for topic_id in dict.fromkeys(topic_id for spec in specs.values() for topic_id in spec.topics)
    }
    try:
        assigned = ASSIGNORS[assignor](specs, counts)
    except AssignmentError as error:
        logger.error("no assignment group=%r epoch=%d assignor=%s: %s", group.group_id, epoch, assignor, error)
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR) from None
    logger.info("assigned group=%r epoch=%d assignor=%s members=%d", group.group_id, epoch, assignor, len(specs))
    targets = {member_id: _target(assigned.get(member_id, {})) for member_id in specs}
    records = [
        target_record(group.group_id, member_id, target)
        for member_id, target in targets.items()
        if target != group.targets.get(member_id)
    ]
    records.append(target_epoch_record(group.group_id, epoch, now_ms))
    return records, MemberTarget(epoch, targets[member.member_id])


def _specs(group: ConsumerGroup, member: ConsumerGroupMember, image: Image) -> dict[str, MemberSpec]:
    """All members after this decision; equal subscriptions are looked up once."""
    members = {**group.members, member.member_id: member}
    predecessor = group.static_ids.get(member.instance_id) if member.instance_id is not None else None
    if predecessor is not None and predecessor != member.member_id:
        members.pop(predecessor, None)
    ids: dict[tuple[tuple[str, ...], str | None], tuple[bytes, ...]] = {}
    specs = {}
    for one in members.values():
        wanted = (one.topic_names, one.topic_regex)
        if wanted not in ids:
            ids[wanted] = tuple(subscribed_ids(group, one, image))
        source = predecessor if one is member and predecessor is not None else one.member_id
        current = group.targets.get(source, nothing())
        specs[one.member_id] = MemberSpec(ids[wanted], current, one.instance_id, one.rack_id)
    return specs


def _target(partitions: Mapping[bytes, list[int]]) -> Target:
    return {topic_id: tuple(sorted(indexes)) for topic_id, indexes in partitions.items() if indexes}
