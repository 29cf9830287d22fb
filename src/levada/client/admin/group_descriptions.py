"""Groups and their members as brokers describe them, in both protocols."""

from dataclasses import dataclass

from levada.client.admin.kinds import AclOperation, GroupState, GroupType, authorized_operations
from levada.client.admin.request_router import BrokerAnswer, verdict
from levada.client.errors import KafkaError
from levada.client.types import TopicPartition
from levada.protocol.errors import MalformedMessage
from levada.protocol.messages import consumer_group_describe, describe_groups
from levada.protocol.messages.consumer_group_describe import Assignment, ConsumerGroupDescribeResponse
from levada.protocol.messages.consumer_protocol import decode_assignment
from levada.protocol.messages.describe_groups import DescribeGroupsResponse

CONSUMER = "consumer"
"""The protocol type of groups of consumers, as told from Connect's and others'."""
CLASSIC_MEMBER = 0


@dataclass(frozen=True, slots=True)
class GroupListing:
    group_id: str
    protocol_type: str
    """`consumer`; `connect` and others have groups too; empty of a group that only commits offsets."""
    type: GroupType
    """UNKNOWN from brokers that are too old to tell."""
    state: GroupState

    @property
    def is_simple(self) -> bool:
        """It has no members, only offsets."""
        return not self.protocol_type


@dataclass(frozen=True, slots=True)
class MemberDescription:
    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    rack: str | None = None
    target_assignment: tuple[TopicPartition, ...] | None = None
    """What it will have once everyone has given up what they must; None in a classic group."""
    member_epoch: int | None = None
    """None in a classic group."""
    speaks_consumer_protocol: bool | None = None
    """Whether it has moved to the new protocol; None where the broker does not tell."""
    subscribed_topics: tuple[str, ...] = ()
    """In a group of the new protocol; a classic member's are in its metadata."""
    subscribed_regex: str | None = None
    metadata: bytes = b""
    """What a classic member has told the group's leader, and it alone understands."""
    assignment_bytes: bytes = b""
    """What the leader of a classic group has told the member."""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    group_id: str
    type: GroupType
    state: GroupState
    protocol_type: str
    assignor: str
    """The group's assignor; in a classic group the protocol its members agreed on, empty while they have not."""
    members: tuple[MemberDescription, ...]
    coordinator: int
    """A broker's id."""
    authorized_operations: frozenset[AclOperation] | None
    group_epoch: int | None = None
    """None in a classic group."""
    target_assignment_epoch: int | None = None

    @property
    def is_simple(self) -> bool:
        return not self.protocol_type


def read_consumer_groups(
    answer: BrokerAnswer[str, ConsumerGroupDescribeResponse],
) -> dict[str, GroupDescription | KafkaError]:
    response = answer.response
    assert answer.broker is not None
    return {
        group.group_id: verdict(
            group.error_code, group.error_message, f"group {group.group_id!r}", _consumer_group(group, answer.broker)
        )
        for group in response.groups
    }


def read_classic_groups(answer: BrokerAnswer[str, DescribeGroupsResponse]) -> dict[str, GroupDescription | KafkaError]:
    response = answer.response
    assert answer.broker is not None
    return {
        group.group_id: verdict(
            group.error_code, group.error_message, f"group {group.group_id!r}", _classic_group(group, answer.broker)
        )
        for group in response.groups
    }


def _consumer_group(group: consumer_group_describe.DescribedGroup, coordinator: int) -> GroupDescription:
    return GroupDescription(
        group_id=group.group_id,
        type=GroupType.CONSUMER,
        state=GroupState(group.group_state),
        protocol_type=CONSUMER,
        assignor=group.assignor_name,
        members=tuple(_consumer_member(member) for member in group.members),
        coordinator=coordinator,
        authorized_operations=authorized_operations(group.authorized_operations),
        group_epoch=group.group_epoch,
        target_assignment_epoch=group.assignment_epoch,
    )


def _consumer_member(member: consumer_group_describe.Member) -> MemberDescription:
    return MemberDescription(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=_partitions(member.assignment),
        rack=member.rack_id,
        target_assignment=_partitions(member.target_assignment),
        member_epoch=member.member_epoch,
        speaks_consumer_protocol=None if member.member_type < 0 else member.member_type != CLASSIC_MEMBER,
        subscribed_topics=tuple(member.subscribed_topic_names),
        subscribed_regex=member.subscribed_topic_regex,
    )


def _partitions(assignment: Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, partition)
        for topic in assignment.topic_partitions
        for partition in topic.partitions
    )


def _classic_group(group: describe_groups.DescribedGroup, coordinator: int) -> GroupDescription:
    return GroupDescription(
        group_id=group.group_id,
        type=GroupType.CLASSIC,
        state=GroupState(group.group_state),
        protocol_type=group.protocol_type,
        assignor=group.protocol_data,
        members=tuple(_classic_member(member, group.protocol_type) for member in group.members),
        coordinator=coordinator,
        authorized_operations=authorized_operations(group.authorized_operations),
    )


def _classic_member(member: describe_groups.DescribedGroupMember, protocol_type: str) -> MemberDescription:
    return MemberDescription(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=_classic_partitions(member.member_assignment) if protocol_type in (CONSUMER, "") else (),
        metadata=bytes(member.member_metadata),
        assignment_bytes=bytes(member.member_assignment),
    )


def _classic_partitions(data: bytes) -> tuple[TopicPartition, ...]:
    """Empty while the group rebalances, and where the bytes are not those of consumers."""
    if not data:
        return ()
    try:
        assignment = decode_assignment(data)
    except MalformedMessage:
        return ()
    return tuple(
        TopicPartition(topic.topic, partition)
        for topic in assignment.assigned_partitions
        for partition in topic.partitions
    )
