"""Members go: by their own wish, for a while, or because they were not heard of."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from levada.coordination.decision import Decision, Record
from levada.groups.consumer.group import ConsumerGroup
from levada.groups.consumer.group_context import GroupContext
from levada.groups.consumer.group_records import (
    current_assignment_record,
    epoch_record,
    member_tombstones,
    regex_record,
)
from levada.groups.consumer.member import LEAVING_FOR_NOW, ConsumerGroupMember
from levada.groups.consumer.migration import downgrade, may_downgrade
from levada.groups.consumer.refusals import unknown_member
from levada.groups.consumer.validation import check_instance_is_known, check_instance_is_ours
from levada.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

logger = logging.getLogger(__name__)


def leave(
    context: GroupContext, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, now_ms: int
) -> Decision[ConsumerGroupHeartbeatResponse]:
    """A heartbeat with epoch -1, or -2 for a static member that means to return."""
    reply = ConsumerGroupHeartbeatResponse(
        member_id=request.member_id, member_epoch=request.member_epoch, heartbeat_interval_ms=0
    )
    if request.instance_id is None:
        member = group.members.get(request.member_id)
        if member is None:
            raise unknown_member(group.group_id, request.member_id)
    else:
        member = check_instance_is_known(group.static_member(request.instance_id), request.instance_id)
        check_instance_is_ours(member, request.member_id, request.instance_id)
        if request.member_epoch == LEAVING_FOR_NOW:
            return Decision([current_assignment_record(group.group_id, _gone_for_now(member))], reply)
    logger.info("left group=%r member=%r", group.group_id, member.member_id)
    return Decision(without(context, group, [member], now_ms), reply)


def without(
    context: GroupContext, group: ConsumerGroup, members: Sequence[ConsumerGroupMember], now_ms: int
) -> list[Record]:
    """The group goes on without these members, and a new epoch says so to the others.

    Where none but classic members are left, it goes on as a classic group.
    """
    if not members:
        return []
    if may_downgrade(group, members, context.settings):
        made, downgrading = downgrade(group, members, context.image(), now_ms)
        context.downgrades.append(made)
        return downgrading
    records = [record for member in members for record in member_tombstones(group.group_id, member.member_id)]
    records += [regex_record(group.group_id, regex, None) for regex in group.abandoned_regexes(members)]
    metadata_hash = context.hashes.of_group(group.topics_if(members), context.image())
    return [*records, epoch_record(group.group_id, group.epoch + 1, metadata_hash)]


def _gone_for_now(member: ConsumerGroupMember) -> ConsumerGroupMember:
    """It keeps its partitions, from epoch 0 on as in Kafka: no commit counts until a member comes back to them."""
    assigned = {topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in member.assigned.items()}
    return replace(member, epoch=LEAVING_FOR_NOW, assigned=assigned, revoking={})
