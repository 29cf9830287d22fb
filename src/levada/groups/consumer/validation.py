"""What a heartbeat must look like, and who may send it."""

from collections.abc import Sequence

from levada.groups.consumer.group import ConsumerGroup
from levada.groups.consumer.member import (
    JOINING,
    LEAVING,
    LEAVING_FOR_NOW,
    ConsumerGroupMember,
    Owned,
    has_all,
)
from levada.groups.consumer.refusals import Refusal, fenced_epoch, invalid
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.consumer_group_heartbeat import OWN_MEMBER_ID_SINCE, ConsumerGroupHeartbeatRequest

NO_TIMEOUT = -1


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Sequence[str]) -> None:
    """In Apache's order: the first thing that is wrong is what the client hears of."""
    epoch = request.member_epoch
    needs_member_id = version >= OWN_MEMBER_ID_SINCE or epoch > JOINING or epoch == LEAVING
    if needs_member_id and _is_blank(request.member_id):
        raise invalid("MemberId can't be empty.")
    if _is_blank(request.group_id):
        raise invalid("GroupId can't be empty.")
    if _is_blank(request.instance_id):
        raise invalid("InstanceId can't be empty.")
    if _is_blank(request.rack_id):
        raise invalid("RackId can't be empty.")
    if epoch == JOINING:
        _check_join(request)
    elif epoch == LEAVING_FOR_NOW and request.instance_id is None:
        raise invalid("InstanceId can't be null.")
    elif epoch < LEAVING_FOR_NOW:
        raise invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        known = ", ".join(sorted(assignors, reverse=True))
        text = f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {known}."
        raise Refusal(ErrorCode.UNSUPPORTED_ASSIGNOR, text)


def check_size(group: ConsumerGroup, member_id: str, max_size: int) -> None:
    if len(group.members) >= max_size and (not member_id or member_id not in group.members):
        text = f"The consumer group has reached its maximum capacity of {max_size} members."
        raise Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, text)


def check_epoch(member: ConsumerGroupMember, epoch: int, owned: Sequence[Owned] | None) -> None:
    """A member whose last answer was lost comes with its previous epoch; it may not have what it no longer may use."""
    if epoch == JOINING or epoch == member.epoch:
        return
    known = f"member epoch ({epoch}) than the one known by the group coordinator ({member.epoch})"
    if epoch > member.epoch:
        raise fenced_epoch(f"has a greater {known}")
    if epoch != member.previous_epoch or owned is None or not has_all(member.assigned, owned):
        raise fenced_epoch(f"has a smaller {known}")


def check_instance_is_known(member: ConsumerGroupMember | None, instance_id: str) -> ConsumerGroupMember:
    if member is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    return member


def check_instance_is_ours(member: ConsumerGroupMember, member_id: str, instance_id: str) -> None:
    if member.member_id != member_id:
        text = f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}."
        raise Refusal(ErrorCode.FENCED_INSTANCE_ID, text)


def check_instance_is_released(member: ConsumerGroupMember, member_id: str, instance_id: str) -> None:
    if member.epoch != LEAVING_FOR_NOW:
        text = (
            f"Static member {member_id} with instance id {instance_id} cannot join the group "
            f"because the instance id is owned by {member.member_id} member."
        )
        raise Refusal(ErrorCode.UNRELEASED_INSTANCE_ID, text)


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == NO_TIMEOUT:
        raise invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def _is_blank(text: str | None) -> bool:
    """Given, and nothing but spaces and control characters."""
    return text is not None and all(character <= " " for character in text)
