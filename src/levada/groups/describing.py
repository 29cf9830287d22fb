"""What administrators are told of a classic group."""

from levada.groups.group import ClassicGroupState, Group
from levada.groups.member import Member
from levada.model.error_codes import ErrorCode
from levada.model.errors import shortened
from levada.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from levada.protocol.messages.list_groups import ListedGroup

CLASSIC = "classic"


def described(group: Group) -> DescribedGroup:
    """Metadata is shown once the protocol is settled; an assignment is shown until another takes its place."""
    protocol = group.protocol_name if group.state is ClassicGroupState.STABLE else None
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[_described_member(member, protocol) for member in group.members.values()],
    )


def unknown(group_id: str, reason: str) -> DescribedGroup:
    return DescribedGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=shortened(reason),
        group_id=group_id,
        group_state=ClassicGroupState.DEAD.value,
        protocol_type="",
        protocol_data="",
        members=[],
    )


def listed(group: Group) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        group_state=group.state.value,
        group_type=CLASSIC,
    )


def _described_member(member: Member, protocol: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.protocols[protocol] if protocol is not None else b"",
        member_assignment=member.assignment,
    )
