"""ConsumerGroupHeartbeat of members that join or stay."""

from dataclasses import replace

from levada.coordination.decision import Decision, Record
from levada.groups.consumer.group import ConsumerGroup
from levada.groups.consumer.group_context import Client, GroupContext
from levada.groups.consumer.group_records import replacement_records
from levada.groups.consumer.member import JOINING, ConsumerGroupMember, Partitions, sorted_names
from levada.groups.consumer.refusals import unknown_member
from levada.groups.consumer.subscription_update import SubscriptionUpdate
from levada.groups.consumer.validation import (
    NO_TIMEOUT,
    check_epoch,
    check_instance_is_known,
    check_instance_is_ours,
    check_instance_is_released,
    check_size,
)
from levada.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ResponseTopicPartitions,
)


def heartbeat(
    context: GroupContext, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, client: Client, now_ms: int
) -> Decision[ConsumerGroupHeartbeatResponse]:
    check_size(group, request.member_id, context.settings.max_size)
    member_id = request.member_id or context.new_member_id()
    records: list[Record] = []
    if request.instance_id is None:
        old = _dynamic_member(group, member_id, request)
    else:
        old = _static_member(group, member_id, request.instance_id, request, records)
    update = SubscriptionUpdate(context, group, old, _updated(old, request, client), now_ms)
    update.subscribe()
    target = update.assign()
    member = update.reconcile(target, request.topic_partitions)
    context.restart_session(group.group_id, member.member_id, now_ms)
    reply = ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=context.settings.heartbeat_interval_ms(context.group_config(group.group_id)),
    )
    # A member that knows nothing, or says everything, hears everything; others hear of changes only.
    if request.member_epoch == JOINING or _says_everything(request) or member.assigned != old.assigned:
        reply.assignment = _assignment(member.assigned)
    return Decision([*records, *update.records], reply)


def _dynamic_member(
    group: ConsumerGroup, member_id: str, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupMember:
    member = group.members.get(member_id)
    if member is None:
        if request.member_epoch != JOINING:
            raise unknown_member(group.group_id, member_id)
        return ConsumerGroupMember(member_id)
    check_epoch(member, request.member_epoch, request.topic_partitions)
    return member


def _static_member(
    group: ConsumerGroup,
    member_id: str,
    instance_id: str,
    request: ConsumerGroupHeartbeatRequest,
    records: list[Record],
) -> ConsumerGroupMember:
    """A member that joins under a name that is known takes the place of the one who had it (KIP-345)."""
    member = group.static_member(instance_id)
    if request.member_epoch != JOINING:
        member = check_instance_is_known(member, instance_id)
        check_instance_is_ours(member, member_id, instance_id)
        check_epoch(member, request.member_epoch, request.topic_partitions)
        return member
    if member is None:
        return group.members.get(member_id) or ConsumerGroupMember(member_id)
    # A classic member does not say that it goes for a while.
    if not member.uses_classic_protocol:
        check_instance_is_released(member, member_id, instance_id)
    successor = replace(member, member_id=member_id, epoch=JOINING, previous_epoch=JOINING)
    records += replacement_records(group, member, successor)
    return successor


def _updated(
    member: ConsumerGroupMember, request: ConsumerGroupHeartbeatRequest, client: Client
) -> ConsumerGroupMember:
    """What a heartbeat leaves out has not changed."""
    names, timeout_ms = request.subscribed_topic_names, request.rebalance_timeout_ms
    regex, assignor = request.subscribed_topic_regex, request.server_assignor
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == NO_TIMEOUT else timeout_ms,
        assignor=member.assignor if assignor is None else assignor,
        topic_names=member.topic_names if names is None else sorted_names(names),
        topic_regex=member.topic_regex if regex is None else regex,
        client_id=client.client_id,
        client_host=client.client_host,
        classic=None,
    )


def _says_everything(request: ConsumerGroupHeartbeatRequest) -> bool:
    has_subscription = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != NO_TIMEOUT and has_subscription and request.topic_partitions is not None


def _assignment(assigned: Partitions) -> Assignment:
    return Assignment(
        topic_partitions=[
            ResponseTopicPartitions(topic_id=topic_id, partitions=list(epochs)) for topic_id, epochs in assigned.items()
        ]
    )
