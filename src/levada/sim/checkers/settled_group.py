"""When a group is at rest: every partition has one owner, and coordinator and members agree on it."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from levada.model.error_codes import ErrorCode
from levada.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from levada.protocol.messages.consumer_protocol import decode_assignment
from levada.protocol.messages.describe_groups import DescribeGroupsRequest
from levada.protocol.messages.metadata import MetadataRequest
from levada.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from levada.sim.checkers.check_failed import CheckFailed
from levada.sim.checkers.group_history import NOTHING_COMMITTED, GroupHistory
from levada.sim.checkers.partition_log import Partition
from levada.sim.requests.connections import Connector

STABLE = "Stable"

Assigned = dict[str, list[Partition]]
"""Partitions by member."""


class SettlingMember(Protocol):
    """What a member says of itself."""

    @property
    def name(self) -> str: ...

    @property
    def member_id(self) -> str: ...

    @property
    def topics(self) -> Sequence[str]: ...

    @property
    def owned(self) -> Mapping[Partition, int | None]: ...

    @property
    def is_steady(self) -> bool: ...


async def unsettled(connector: Connector, history: GroupHistory, members: Sequence[SettlingMember]) -> list[str]:
    """Why a group is not at rest; nothing if every partition has one owner, and the coordinator says the same."""
    group_id = history.group_id
    unsteady = [member.name for member in members if not member.is_steady]
    if unsteady:
        return [f"{group_id}: {unsteady} are on their way"]
    owners: dict[Partition, list[str]] = {partition: [] for partition in await _wanted(connector, members)}
    for member in members:
        for partition in member.owned:
            owners.setdefault(partition, []).append(member.name)
    reasons = [f"{group_id}: {one} has owners {names}" for one, names in owners.items() if len(names) != 1]
    await _check_offsets(connector, history)
    known = await _consumers_described(connector, group_id)
    if known is None:
        known = await _described(connector, group_id)
    own = {member.member_id: sorted(member.owned) for member in members}
    if not reasons and known != own:
        reasons.append(f"{group_id}: the coordinator knows {known}, the members {own}")
    return reasons


async def _wanted(connector: Connector, members: Sequence[SettlingMember]) -> list[Partition]:
    """All partitions that a member subscribes to."""
    reply = await connector.call(MetadataRequest(topics=None), 12)
    names = dict.fromkeys(topic for member in members for topic in member.topics)
    return [
        (topic.name, partition.partition_index)
        for topic in reply.topics
        if topic.name in names
        for partition in topic.partitions
    ]


async def _check_offsets(connector: Connector, history: GroupHistory) -> None:
    """Read where the group left off in all its partitions."""
    loop = asyncio.get_running_loop()
    asked_s = loop.time()
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=history.group_id, topics=None)])
    reply = await connector.call(request, 8)
    [group] = reply.groups
    if group.error_code:
        return
    found = {(topic.name, one.partition_index): one for topic in group.topics for one in topic.partitions}
    for partition in history.offsets.commits:
        one = found.get(partition)
        label, offset = ("", NOTHING_COMMITTED) if one is None else (one.metadata or "", one.committed_offset)
        history.offsets.check_read(partition, label, offset, asked_s, loop.time())


async def _described(connector: Connector, group_id: str) -> Assigned | str:
    """What a classic group's members have, or the state in which the coordinator cannot say."""
    reply = await connector.call(DescribeGroupsRequest(groups=[group_id]), 5)
    [group] = reply.groups
    if group.group_state != STABLE:
        return f"{ErrorCode(group.error_code).name} {group.group_state}"
    return {
        one.member_id: sorted(
            (topic.topic, index)
            for topic in decode_assignment(one.member_assignment).assigned_partitions
            for index in topic.partitions
        )
        for one in group.members
    }


async def _consumers_described(connector: Connector, group_id: str) -> Assigned | str | None:
    """The same of a group that is no classic one; None if it is one."""
    request = ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False)
    reply = await connector.call(request, 1)
    [group] = reply.groups
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    if group.group_state != STABLE:
        return f"{ErrorCode(group.error_code).name} {group.group_state}"
    for member in group.members:
        if member.member_epoch > group.group_epoch:
            raise CheckFailed(f"{member.member_id} is at {member.member_epoch}, its group at {group.group_epoch}")
    return {
        one.member_id: sorted(
            (topic.topic_name, index) for topic in one.assignment.topic_partitions for index in topic.partitions
        )
        for one in group.members
    }
