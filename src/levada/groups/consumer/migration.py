"""From a classic group to a consumer group and back, while its members stay (`group.consumer.migration.policy`)."""

from collections.abc import Mapping, Sequence

from levada.coordination.decision import Record
from levada.groups.consumer.group import ConsumerGroup
from levada.groups.consumer.group_records import (
    current_assignment_record,
    epoch_record,
    group_tombstones,
    subscription_record,
    target_epoch_record,
    target_record,
)
from levada.groups.consumer.member import ConsumerGroupMember, MemberState, Target, sorted_names
from levada.groups.consumer.refusals import Refusal
from levada.groups.consumer.replay import replay
from levada.groups.consumer.settings import ConsumerGroupSettings
from levada.groups.consumer.topics import NO_TOPICS
from levada.groups.group import CONSUMER, ClassicGroupState, Group
from levada.groups.group_records import deletion, metadata_record
from levada.groups.member import Member
from levada.groups.records import ClassicMemberMetadata, ClassicProtocol
from levada.metadata.image import Image
from levada.model.error_codes import ErrorCode
from levada.protocol.errors import MalformedMessage
from levada.protocol.messages.consumer_protocol import (
    NEWEST_VERSION,
    AssignedTopic,
    ConsumerProtocolAssignment,
    decode_assignment,
    decode_subscription,
    encode_assignment,
)


def check_upgrade(classic: Group, settings: ConsumerGroupSettings) -> None:
    """A member of the new protocol may join a classic group of consumers, and bring it over."""
    if not settings.migration_policy.allows_upgrade:
        raise _cannot_upgrade(classic, "online upgrade is disabled.")
    if not classic.is_of_consumers:
        raise _cannot_upgrade(classic, "the group does not use the consumer embedded protocol.")
    if len(classic.members) > settings.max_size:
        raise _cannot_upgrade(classic, "the group size exceeds the consumer group maximum size.")


def upgrade(classic: Group, image: Image) -> tuple[ConsumerGroup, list[Record]]:
    """The consumer group that a classic one becomes: its members go on with what they have, in their own protocol.

    The leader that made the assignment leads no more, and no coordinator knows which partitions it saw, or what a
    rebalance that this interrupts was to hand out. So the group knows of no topics yet, and is assigned anew at once.
    """
    generation = classic.generation
    members = [_upgraded(member, classic, image) for member in classic.members.values()]
    _check_owners(members)
    group_id = classic.group_id
    records = [
        *(subscription_record(group_id, member) for member in members),
        epoch_record(group_id, generation, NO_TOPICS),
        *(
            target_record(group_id, one.member_id, {key: tuple(value) for key, value in one.assigned.items()})
            for one in members
        ),
        target_epoch_record(group_id, generation, 0),
        *(current_assignment_record(group_id, member) for member in members),
    ]
    # The decision goes on from there, before the records are written.
    groups: dict[str, ConsumerGroup] = {}
    for record in records:
        replay(groups, record)
    return groups[group_id], [deletion(group_id), *records]


def may_downgrade(
    group: ConsumerGroup, leaving: Sequence[ConsumerGroupMember], settings: ConsumerGroupSettings
) -> bool:
    """Whether only members of the classic protocol stay."""
    staying = len(group.members) - len(leaving)
    staying_classic = group.classic_count - sum(member.uses_classic_protocol for member in leaving)
    return (
        staying == staying_classic
        and staying > 0
        and settings.migration_policy.allows_downgrade
        and staying <= settings.max_classic_size
    )


def downgrade(
    group: ConsumerGroup,
    leaving: Sequence[ConsumerGroupMember],
    image: Image,
    now_ms: int,
    *,
    joining: ConsumerGroupMember | None = None,
) -> tuple[Group, list[Record]]:
    """The classic group of the members that stay; `joining` takes the place of the last member of the new protocol.

    It must rebalance, if only to find a leader: so far none of them led, and none looks for new topics.
    """
    gone = {member.member_id for member in leaving}
    predecessor = None if joining is None else group.static_member(joining.instance_id)
    classic = Group(group.group_id)
    classic.generation = group.epoch
    targets = {}
    for member in group.members.values():
        if member.member_id not in gone and member is not predecessor:
            classic.add(_downgraded(member), CONSUMER)
            targets[member.member_id] = group.target_of(member.member_id)
    if joining is not None and predecessor is not None:
        classic.add(_downgraded(joining), CONSUMER)
        targets[joining.member_id] = group.target_of(predecessor.member_id)
    classic.protocol_name = classic.choose_protocol()
    classic.state = ClassicGroupState.STABLE
    classic.state_since_ms = now_ms
    classic.find_subscribed_topics()
    for one in classic.members.values():
        one.assignment = assignment_bytes(targets[one.member_id], one.protocols[classic.protocol_name], image)
    renamed = {predecessor.member_id: joining.member_id} if joining is not None and predecessor is not None else {}
    # Another coordinator knows nothing of the rebalance: to it, members that have not begun it must be of the past.
    classic.generation += 1
    records = [*group_tombstones(group, renamed), metadata_record(classic)]
    classic.generation = group.epoch
    return classic, records


def assignment_bytes(partitions: Mapping[bytes, Sequence[int]], subscription: bytes, image: Image) -> bytes:
    """Partitions in the format of the classic protocol, in the version that the member itself speaks."""
    topics = [
        AssignedTopic(topic=image.topic_names[topic_id], partitions=list(indexes))
        for topic_id, indexes in partitions.items()
        if topic_id in image.topic_names
    ]
    version = int.from_bytes(subscription[:2], "big")
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=topics), min(version, NEWEST_VERSION))


def _upgraded(member: Member, classic: Group, image: Image) -> ConsumerGroupMember:
    metadata = member.protocols.get(classic.protocol_name or "")
    if metadata is None:
        # It has never had a generation, so its members have not agreed on a protocol yet.
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
    try:
        subscription = decode_subscription(metadata)
        target = _read_assignment(member.assignment, classic, image)
    except MalformedMessage:
        raise _cannot_upgrade(classic, "the embedded consumer protocol is malformed.") from None
    protocols = [ClassicProtocol(name=name, metadata=data) for name, data in member.protocols.items()]
    return ConsumerGroupMember(
        member_id=member.member_id,
        epoch=classic.generation,
        previous_epoch=classic.generation,
        state=MemberState.STABLE,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=sorted_names(subscription.topics),
        assigned={topic_id: dict.fromkeys(indexes, classic.generation) for topic_id, indexes in target.items()},
        classic=ClassicMemberMetadata(session_timeout_ms=member.session_timeout_ms, supported_protocols=protocols),
    )


def _read_assignment(data: bytes, classic: Group, image: Image) -> Target:
    if not data:
        return {}
    assignment = decode_assignment(data)
    if assignment.user_data:
        raise _cannot_upgrade(
            classic,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
            "assignor before re-attempting the upgrade.",
        )
    partitions: dict[bytes, dict[int, None]] = {}
    for one in assignment.assigned_partitions:
        # A client may name a topic more than once.
        if one.topic in image.topics and one.partitions:
            partitions.setdefault(image.topics[one.topic].topic_id, {}).update(dict.fromkeys(one.partitions))
    return {topic_id: tuple(sorted(indexes)) for topic_id, indexes in partitions.items()}


def _check_owners(members: Sequence[ConsumerGroupMember]) -> None:
    """Clients make a classic group's assignment; it may give a partition to two."""
    seen: set[tuple[bytes, int]] = set()
    for member in members:
        for topic_id, epochs in member.assigned.items():
            for partition in epochs:
                if (topic_id, partition) in seen:
                    raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
                seen.add((topic_id, partition))


def _downgraded(member: ConsumerGroupMember) -> Member:
    assert member.classic is not None
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        session_timeout_ms=member.classic.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=dict(member.classic_protocols),
        client_id=member.client_id,
        client_host=member.client_host,
    )


def _cannot_upgrade(classic: Group, why: str) -> Refusal:
    text = f"Cannot upgrade classic group {classic.group_id} to consumer group because {why}"
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, text)
