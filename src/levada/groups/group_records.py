"""A classic group as the record that keeps it, and back."""

from levada.coordination.decision import Record
from levada.groups.group import ClassicGroupState, Group
from levada.groups.member import Member
from levada.groups.records import GroupMetadataKey, GroupMetadataValue, MemberMetadata

UNKNOWN_TIME = -1


def metadata_record(group: Group) -> Record:
    """The group's generation; of a group between two generations only the members are remembered."""
    protocol = group.protocol_name
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=protocol,
        leader=group.leader,
        current_state_timestamp=UNKNOWN_TIME if group.state_since_ms is None else group.state_since_ms,
        members=[_member_metadata(member, protocol) for member in group.members.values()] if protocol else [],
    )
    return Record(GroupMetadataKey(group=group.group_id), value)


def deletion(group_id: str) -> Record:
    return Record(GroupMetadataKey(group=group_id), None)


def group_from(group_id: str, value: GroupMetadataValue) -> Group:
    group = Group(group_id)
    group.state = ClassicGroupState.STABLE if value.members else ClassicGroupState.EMPTY
    group.generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    group.state_since_ms = None if value.current_state_timestamp == UNKNOWN_TIME else value.current_state_timestamp
    for metadata in value.members:
        group.add(_member_from(metadata, value.protocol or ""), value.protocol_type)
    group.leader = value.leader
    group.find_subscribed_topics()
    return group


def _member_metadata(member: Member, protocol: str) -> MemberMetadata:
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.protocols[protocol],
        assignment=member.assignment,
    )


def _member_from(metadata: MemberMetadata, protocol: str) -> Member:
    # Version 0 of the record has no rebalance timeout of its own.
    has_timeout = metadata.rebalance_timeout != -1
    return Member(
        member_id=metadata.member_id,
        instance_id=metadata.group_instance_id,
        session_timeout_ms=metadata.session_timeout,
        rebalance_timeout_ms=metadata.rebalance_timeout if has_timeout else metadata.session_timeout,
        protocols={protocol: bytes(metadata.subscription)},
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        assignment=bytes(metadata.assignment),
    )
