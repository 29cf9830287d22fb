"""The topics that simulated groups read, how they change, and when a group is at rest."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

from levada.model.errors import ErrorCode
from levada.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from levada.protocol.messages.consumer_protocol import decode_assignment
from levada.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from levada.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from levada.protocol.messages.describe_groups import DescribeGroupsRequest
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.protocol.messages.metadata import MetadataRequest
from levada.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from levada.sim.checkers import CheckFailed
from levada.sim.clients import Connector, create_topic
from levada.sim.group_checkers import NOTHING_COMMITTED, Books, Partition
from levada.sim.group_members import GroupMember, retry_pause
from levada.sim.storm import Caller

TOPICS = ("first", "second", "third")
"""The last is not there in the beginning."""
FIRST_PARTITIONS = (3, 2)
MAX_PARTITIONS = 6
STABLE = "Stable"

Assigned = dict[str, list[Partition]]
"""Partitions by member."""


async def prepare_cluster(connector: Connector, group_ids: list[str]) -> None:
    """Make the topics that are there from the beginning, and the one that keeps the groups."""
    for name, partitions in zip(TOPICS, FIRST_PARTITIONS):
        await create_topic(connector, name, partitions)
    while True:
        reply: Any = await connector.call(FindCoordinatorRequest(coordinator_keys=group_ids), 4)
        if all(one.error_code == ErrorCode.NONE for one in reply.coordinators):
            return
        await retry_pause()


async def change_topics(caller: Caller, chance: random.Random) -> None:
    """Grow a topic or create one; whether there is an answer does not matter, the groups must see what there is."""
    name = chance.choice(TOPICS)
    count = chance.randint(2, MAX_PARTITIONS)
    if name == TOPICS[-1] and chance.random() < 0.7:
        made = CreatableTopic(name=name, num_partitions=count, replication_factor=1, assignments=[], configs=[])
        await caller.ask(CreateTopicsRequest(topics=[made]), 7)
    else:
        topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
        await caller.ask(CreatePartitionsRequest(topics=[topic], timeout_ms=1_000, validate_only=False), 3)


async def settled(connector: Connector, books: Books, members: Sequence[GroupMember]) -> list[str]:
    """Why a group is not at rest; nothing if every partition has one owner, and the coordinator says the same."""
    group_id = books.group_id
    unsteady = [member.plan.name for member in members if not member.is_steady]
    if unsteady:
        return [f"{group_id}: {unsteady} are on their way"]
    owners: dict[Partition, list[str]] = {partition: [] for partition in await _wanted(connector, members)}
    for member in members:
        for partition in member.owned:
            owners.setdefault(partition, []).append(member.plan.name)
    reasons = [f"{group_id}: {one} has owners {names}" for one, names in owners.items() if len(names) != 1]
    await _check_offsets(connector, books)
    known = await _consumers_described(connector, group_id)
    if known is None:
        known = await _described(connector, group_id)
    own = {member.member_id: sorted(member.owned) for member in members}
    if not reasons and known != own:
        reasons.append(f"{group_id}: the coordinator knows {known}, the members {own}")
    return reasons


async def _wanted(connector: Connector, members: Sequence[GroupMember]) -> list[Partition]:
    """All partitions that somebody subscribes to."""
    reply: Any = await connector.call(MetadataRequest(topics=None), 12)
    names = dict.fromkeys(topic for member in members for topic in member.plan.topics)
    return [
        (topic.name, partition.partition_index)
        for topic in reply.topics
        if topic.name in names
        for partition in topic.partitions
    ]


async def _check_offsets(connector: Connector, books: Books) -> None:
    """Read where the group left off in all its partitions."""
    loop = asyncio.get_running_loop()
    asked_s = loop.time()
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=books.group_id, topics=None)])
    reply: Any = await connector.call(request, 8)
    [group] = reply.groups
    if group.error_code:
        return
    found = {(topic.name, one.partition_index): one for topic in group.topics for one in topic.partitions}
    for partition in books.offsets.commits:
        one = found.get(partition)
        label, offset = ("", NOTHING_COMMITTED) if one is None else (one.metadata, one.committed_offset)
        books.offsets.check_read(partition, label, offset, asked_s, loop.time())


async def _described(connector: Connector, group_id: str) -> Assigned | str:
    """What a classic group's members have, or the state in which nobody can say."""
    reply: Any = await connector.call(DescribeGroupsRequest(groups=[group_id]), 5)
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
    reply: Any = await connector.call(request, 1)
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
