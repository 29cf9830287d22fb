"""Members of a consumer group that still speak the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

No request waits here: a member joins with what it has, is told its part when it syncs, and is told by its heartbeats
when it is to join again.
"""

from collections.abc import Sequence
from dataclasses import replace

from levada.coordination.decision import Decision, Record
from levada.groups.consumer.group import ConsumerGroup
from levada.groups.consumer.group_context import Client, ConsumerTimer, ConsumerTimerKind, GroupContext
from levada.groups.consumer.group_records import replacement_records
from levada.groups.consumer.leaving import without
from levada.groups.consumer.member import JOINING, ConsumerGroupMember, MemberState, sorted_names
from levada.groups.consumer.migration import assignment_bytes, downgrade
from levada.groups.consumer.refusals import Refusal, unknown_member
from levada.groups.consumer.settings import MigrationPolicy
from levada.groups.consumer.subscription_update import SubscriptionUpdate
from levada.groups.consumer.target import last_target
from levada.groups.consumer.validation import (
    NO_TIMEOUT,
    check_instance_is_known,
    check_instance_is_ours,
    check_size,
)
from levada.groups.group import CONSUMER
from levada.groups.member import protocols_of
from levada.groups.records import ClassicMemberMetadata, ClassicProtocol
from levada.metadata.image import Image
from levada.model.error_codes import ErrorCode
from levada.protocol.errors import MalformedMessage
from levada.protocol.messages.consumer_group_heartbeat import RequestTopicPartitions
from levada.protocol.messages.consumer_protocol import ConsumerProtocolSubscription, decode_subscription
from levada.protocol.messages.heartbeat import HeartbeatRequest
from levada.protocol.messages.join_group import MEMBER_ID_SINCE, JoinGroupRequest, JoinGroupResponse
from levada.protocol.messages.leave_group import MemberIdentity
from levada.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def join(
    context: GroupContext, group: ConsumerGroup, request: JoinGroupRequest, client: Client, now_ms: int
) -> Decision[JoinGroupResponse]:
    """JoinGroup to a group that has members of the new protocol, or had them a moment ago."""
    if context.settings.migration_policy is MigrationPolicy.DISABLED:
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    is_new = not request.member_id
    member_id = request.member_id or context.new_member_id()
    check_size(group, member_id, context.settings.max_size)
    _check_protocols(group, request)
    is_dynamic = request.group_instance_id is None
    if is_new and is_dynamic and client.version >= MEMBER_ID_SINCE:
        return Decision((), _joined(member_id, error_code=ErrorCode.MEMBER_ID_REQUIRED))
    records: list[Record] = []
    if request.group_instance_id is None:
        old = group.members.get(member_id) or ConsumerGroupMember(member_id)
    else:
        old = _static_member(group, member_id, request.group_instance_id, records, is_new=is_new)
    subscription = _subscription(request)
    update = SubscriptionUpdate(context, group, old, _updated(old, request, subscription, client), now_ms)
    update.subscribe()
    owned = _owned(subscription, context.image())
    if _is_last_of_its_kind(context, group, request.group_instance_id):
        return _downgraded(context, group, update, owned, records, now_ms)
    member = update.reconcile(update.assign(), owned)
    context.told_to_join.pop(ConsumerTimer(group.group_id, ConsumerTimerKind.JOIN, member_id), None)
    context.restart_session(group.group_id, member_id, now_ms, request.session_timeout_ms)
    sync_timer = ConsumerTimer(group.group_id, ConsumerTimerKind.SYNC, member_id)
    context.timers.set(sync_timer, now_ms + request.rebalance_timeout_ms)
    reply = _joined(member_id, generation=member.epoch, protocol=request.protocols[0].name)
    return Decision([*records, *update.records], reply)


def sync(context: GroupContext, group: ConsumerGroup, request: SyncGroupRequest, now_ms: int) -> SyncGroupResponse:
    """SyncGroup: what the member has, as far as others have given it up."""
    member, classic = _member(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    protocol = classic.supported_protocols[0]
    is_other_type = request.protocol_type is not None and request.protocol_type != CONSUMER
    is_other_name = request.protocol_name is not None and request.protocol_name != protocol.name
    if is_other_type or is_other_name:
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _tell_to_join(context, group, member, now_ms)
        raise Refusal(ErrorCode.REBALANCE_IN_PROGRESS)
    context.timers.cancel(ConsumerTimer(group.group_id, ConsumerTimerKind.SYNC, member.member_id))
    context.restart_session(group.group_id, member.member_id, now_ms, classic.session_timeout_ms)
    partitions = {topic_id: list(epochs) for topic_id, epochs in member.assigned.items()}
    return SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=assignment_bytes(partitions, bytes(protocol.metadata), context.image()),
    )


def heartbeat(context: GroupContext, group: ConsumerGroup, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
    """Heartbeat; a member that has something to give up or to get is told to join again."""
    member, classic = _member(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    context.restart_session(group.group_id, member.member_id, now_ms, classic.session_timeout_ms)
    can_get_more = member.state is MemberState.UNRELEASED_PARTITIONS and not _waits(group, member)
    is_behind = member.epoch < group.assignment_epoch or member.state is MemberState.UNREVOKED_PARTITIONS
    if not is_behind and not can_get_more:
        return ErrorCode.NONE
    _tell_to_join(context, group, member, now_ms)
    return ErrorCode.REBALANCE_IN_PROGRESS


def leave(
    context: GroupContext, group: ConsumerGroup, leaving: Sequence[MemberIdentity], now_ms: int
) -> Decision[list[ErrorCode]]:
    """LeaveGroup for one or many; one code for each, in their order."""
    gone: dict[str, ConsumerGroupMember] = {}
    codes = []
    for identity in leaving:
        try:
            member = _leaving_member(group, identity)
        except Refusal as refusal:
            codes.append(refusal.code)
        else:
            gone[member.member_id] = member
            codes.append(ErrorCode.NONE)
    return Decision(without(context, group, list(gone.values()), now_ms), codes)


def _check_protocols(group: ConsumerGroup, request: JoinGroupRequest) -> None:
    """A classic member must understand all other classic members, as they may be alone again."""
    is_common = any(group.classic_protocols[protocol.name] == group.classic_count for protocol in request.protocols)
    if request.protocol_type != CONSUMER or not is_common:
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _static_member(
    group: ConsumerGroup, member_id: str, instance_id: str, records: list[Record], *, is_new: bool
) -> ConsumerGroupMember:
    member = group.static_member(instance_id)
    if not is_new:
        member = check_instance_is_known(member, instance_id)
        check_instance_is_ours(member, member_id, instance_id)
        return member
    if member is None:
        return group.members.get(member_id) or ConsumerGroupMember(member_id)
    successor = replace(member, member_id=member_id, epoch=JOINING, previous_epoch=JOINING)
    records += replacement_records(group, member, successor)
    return successor


def _updated(
    member: ConsumerGroupMember, request: JoinGroupRequest, subscription: ConsumerProtocolSubscription, client: Client
) -> ConsumerGroupMember:
    timeout_ms = request.rebalance_timeout_ms
    protocols = protocols_of(request.protocols)
    return replace(
        member,
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == NO_TIMEOUT else timeout_ms,
        topic_names=sorted_names(subscription.topics),
        topic_regex="",
        client_id=client.client_id,
        client_host=client.client_host,
        classic=ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms,
            supported_protocols=[ClassicProtocol(name=name, metadata=data) for name, data in protocols.items()],
        ),
    )


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    try:
        return decode_subscription(request.protocols[0].metadata)
    except MalformedMessage:
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR) from None


def _owned(subscription: ConsumerProtocolSubscription, image: Image) -> list[RequestTopicPartitions]:
    return [
        RequestTopicPartitions(topic_id=image.topics[one.topic].topic_id, partitions=one.partitions)
        for one in subscription.owned_partitions
        if one.topic in image.topics
    ]


def _is_last_of_its_kind(context: GroupContext, group: ConsumerGroup, instance_id: str | None) -> bool:
    """Whether the join replaces the only member of the new protocol, so that the group is classic after it."""
    predecessor = group.static_member(instance_id)
    if predecessor is None or predecessor.uses_classic_protocol:
        return False
    settings = context.settings
    # The joining member takes the place of its predecessor: the group keeps its size.
    return (
        group.classic_count == len(group.members) - 1
        and settings.migration_policy.allows_downgrade
        and len(group.members) <= settings.max_classic_size
    )


def _downgraded(
    context: GroupContext,
    group: ConsumerGroup,
    update: SubscriptionUpdate,
    owned: Sequence[RequestTopicPartitions],
    records: list[Record],
    now_ms: int,
) -> Decision[JoinGroupResponse]:
    """The last member of the new protocol comes back with the classic one, and the group goes back with it."""
    is_stale = group.assignment_epoch < update.epoch
    member = update.member if is_stale else update.reconcile(last_target(group, update.member), owned)
    made, downgrading = downgrade(group, (), context.image(), now_ms, joining=member)
    context.downgrades.append(made)
    reply = _joined(member.member_id, generation=member.epoch, protocol=next(iter(member.classic_protocols)))
    return Decision([*records, *update.records, *downgrading], reply)


def _joined(
    member_id: str, *, generation: int = -1, protocol: str = "", error_code: ErrorCode = ErrorCode.NONE
) -> JoinGroupResponse:
    """No member leads: the coordinator assigns."""
    return JoinGroupResponse(
        error_code=error_code,
        generation_id=generation,
        protocol_type=CONSUMER if protocol else None,
        protocol_name=protocol,
        leader="",
        member_id=member_id,
        members=[],
    )


def _member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerGroupMember, ClassicMemberMetadata]:
    member = group.members.get(member_id) if instance_id is None else group.static_member(instance_id)
    if member is None:
        raise unknown_member(group.group_id, member_id)
    if instance_id is not None:
        check_instance_is_ours(member, member_id, instance_id)
    if member.classic is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
    return member, member.classic


def _check_generation(member: ConsumerGroupMember, generation: int) -> None:
    if generation != member.epoch:
        raise Refusal(ErrorCode.ILLEGAL_GENERATION)


def _waits(group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    """Whether something that it is to have is still with others."""
    return any(
        partition not in member.assigned.get(topic_id, ()) and group.is_owned(topic_id, partition)
        for topic_id, partitions in group.target_of(member.member_id).items()
        for partition in partitions
    )


def _tell_to_join(context: GroupContext, group: ConsumerGroup, member: ConsumerGroupMember, now_ms: int) -> None:
    """Its time to do so runs from the first time it is told."""
    timer = ConsumerTimer(group.group_id, ConsumerTimerKind.JOIN, member.member_id)
    if timer not in context.told_to_join:
        context.told_to_join[timer] = None
        context.timers.set(timer, now_ms + member.rebalance_timeout_ms)


def _leaving_member(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerGroupMember:
    instance_id = identity.group_instance_id
    if instance_id is None:
        member = group.members.get(identity.member_id)
        if member is None:
            raise unknown_member(group.group_id, identity.member_id)
        return member
    member = check_instance_is_known(group.static_member(instance_id), instance_id)
    if identity.member_id:
        check_instance_is_ours(member, identity.member_id, instance_id)
    return member
