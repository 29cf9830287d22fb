"""Groups: listed, described, deleted, and relieved of members."""

from collections.abc import Iterable, Sequence

from levada.client.admin.group_descriptions import (
    GroupDescription,
    GroupListing,
    read_classic_groups,
    read_consumer_groups,
)
from levada.client.admin.kinds import GroupState, GroupType
from levada.client.admin.outcomes import Outcomes
from levada.client.admin.part import AdminPart
from levada.client.admin.request_router import (
    BROKER_FAULTS,
    COORDINATOR_FAULTS,
    BrokerAnswer,
    Question,
    check,
    conclude,
    verdict,
)
from levada.client.cluster import CoordinatorKind, Deadline
from levada.client.errors import KafkaError
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from levada.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from levada.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from levada.protocol.messages.leave_group import (
    MANY_MEMBERS_SINCE,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from levada.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

NOT_OF_THIS_TYPE = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)
DEFAULT_REASON = "member was removed by an admin"
"""What Apache's admin client says."""


class GroupsPart(AdminPart):
    async def list_groups(
        self,
        *,
        states: Iterable[GroupState | str] = (),
        types: Iterable[GroupType | str] = (),
        protocol_types: Iterable[str] = (),
        timeout_ms: float | None = None,
    ) -> list[GroupListing]:
        """The groups of all brokers, or those in these states, of these types, with these protocol types.

        Raises when a broker could not be asked: part of a list is no list.

        >>> [group.group_id for group in await admin.list_groups(states=["Empty"])]
        ['billing']
        """
        deadline = self._requests.deadline(timeout_ms)
        wanted = frozenset(protocol_types)
        request = ListGroupsRequest(
            states_filter=[str(state) for state in states], types_filter=[str(type_) for type_ in types]
        )
        question: Question[int, list[GroupListing], ListGroupsResponse] = Question(
            what="to list groups",
            route=self._routing.brokers(lambda broker: broker),
            request=lambda _, __: request,
            read=_read_listings,
            passing=COORDINATOR_FAULTS | BROKER_FAULTS,
        )
        found = await self._requests.each(await self._requests.broker_ids(deadline), question, deadline)
        found.raise_any()
        # A group may be on its way from one broker to another, and listed by both.
        groups = {group.group_id: group for listings in found.values() for group in listings}
        return [group for group in groups.values() if not wanted or group.protocol_type in wanted]

    async def describe_consumer_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: float | None = None,
    ) -> Outcomes[str, GroupDescription]:
        """Groups of consumers with their members, whichever of the two protocols each group speaks.

        >>> billing = (await admin.describe_consumer_groups(["billing"]))["billing"]
        >>> billing.state, len(billing.members)
        (<GroupState.EMPTY: 'Empty'>, 0)
        """
        wanted = list(dict.fromkeys(group_ids))
        deadline = self._requests.deadline(timeout_ms)
        question: Question[str, GroupDescription, ConsumerGroupDescribeResponse] = Question(
            what="to describe groups",
            route=self._routing.coordinators(CoordinatorKind.GROUP),
            request=lambda ids, _: ConsumerGroupDescribeRequest(
                group_ids=list(ids), include_authorized_operations=include_authorized_operations
            ),
            read=read_consumer_groups,
            passing=COORDINATOR_FAULTS,
        )
        found: dict[str, GroupDescription | KafkaError] = await self._requests.settle(wanted, question, deadline)
        classic = [
            group_id
            for group_id, answer in found.items()
            if isinstance(answer, KafkaError) and answer.code in NOT_OF_THIS_TYPE
        ]
        found.update(await self._describe_classic(classic, include_authorized_operations, deadline))
        return conclude({group_id: found[group_id] for group_id in wanted})

    async def describe_classic_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: float | None = None,
    ) -> Outcomes[str, GroupDescription]:
        """Groups of the classic protocol, those of Connect and others among them."""
        deadline = self._requests.deadline(timeout_ms)
        return conclude(await self._describe_classic(group_ids, include_authorized_operations, deadline))

    async def delete_groups(self, group_ids: Iterable[str], *, timeout_ms: float | None = None) -> Outcomes[str, None]:
        """Delete groups that have no members, with their offsets."""
        question: Question[str, None, DeleteGroupsResponse] = Question(
            what="to delete groups",
            route=self._routing.coordinators(CoordinatorKind.GROUP),
            request=lambda ids, _: DeleteGroupsRequest(groups_names=list(ids)),
            read=_read_deleted,
            passing=COORDINATOR_FAULTS,
        )
        return await self._requests.each(group_ids, question, self._requests.deadline(timeout_ms))

    async def remove_members_from_group(
        self,
        group_id: str,
        group_instance_ids: Iterable[str] | None = None,
        *,
        reason: str = "",
        timeout_ms: float | None = None,
    ) -> Outcomes[str, None]:
        """Put static members out of a classic group, or all members; by their instance ids, others by member ids.

        >>> removed = await admin.remove_members_from_group("billing", ["host-3"], reason="host-3 is gone")
        >>> removed.errors["host-3"].code
        <ErrorCode.UNKNOWN_MEMBER_ID: 25>
        """
        deadline = self._requests.deadline(timeout_ms)
        if group_instance_ids is None:
            leaving = await self._all_members(group_id, deadline)
        else:
            leaving = {one: MemberIdentity(member_id="", group_instance_id=one) for one in group_instance_ids}
        for member in leaving.values():
            member.reason = f"{DEFAULT_REASON}: {reason}" if reason else DEFAULT_REASON

        def read(answer: BrokerAnswer[str, LeaveGroupResponse]) -> dict[str, KafkaError | None]:
            response = answer.response
            check(response.error_code, context=f"group {group_id!r}")
            found: dict[str, KafkaError | None] = {}
            for member in response.members:
                name = member.group_instance_id or member.member_id
                found[name] = verdict(member.error_code, None, f"member {name!r} of group {group_id!r}", None)
            return found

        question: Question[str, None, LeaveGroupResponse] = Question(
            what="to remove members",
            route=self._routing.coordinator(CoordinatorKind.GROUP, group_id),
            request=lambda ids, _: LeaveGroupRequest(group_id=group_id, members=[leaving[one] for one in ids]),
            read=read,
            passing=COORDINATOR_FAULTS,
            at_least=MANY_MEMBERS_SINCE,
        )
        return await self._requests.each(leaving, question, deadline)

    async def _describe_classic(
        self, group_ids: Iterable[str], include_authorized_operations: bool, deadline: Deadline
    ) -> dict[str, GroupDescription | KafkaError]:
        def request(ids: Sequence[str], _: int) -> DescribeGroupsRequest:
            return DescribeGroupsRequest(groups=list(ids), include_authorized_operations=include_authorized_operations)

        question: Question[str, GroupDescription, DescribeGroupsResponse] = Question(
            what="to describe groups",
            route=self._routing.coordinators(CoordinatorKind.GROUP),
            request=request,
            read=read_classic_groups,
            passing=COORDINATOR_FAULTS,
        )
        return await self._requests.settle(group_ids, question, deadline)

    async def _all_members(self, group_id: str, deadline: Deadline) -> dict[str, MemberIdentity]:
        described = conclude(await self._describe_classic([group_id], False, deadline))[group_id]
        return {
            member.group_instance_id or member.member_id: MemberIdentity(
                member_id="" if member.group_instance_id else member.member_id,
                group_instance_id=member.group_instance_id,
            )
            for member in described.members
        }


def _read_listings(answer: BrokerAnswer[int, ListGroupsResponse]) -> dict[int, list[GroupListing]]:
    response = answer.response
    check(response.error_code, context="to list groups")
    listings = [
        GroupListing(group.group_id, group.protocol_type, GroupType(group.group_type), GroupState(group.group_state))
        for group in response.groups
    ]
    return {answer.items[0]: listings}


def _read_deleted(answer: BrokerAnswer[str, DeleteGroupsResponse]) -> dict[str, KafkaError | None]:
    response = answer.response
    return {
        result.group_id: verdict(result.error_code, None, f"group {result.group_id!r}", None)
        for result in response.results
    }
