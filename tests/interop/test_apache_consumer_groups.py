"""Consumer groups (KIP-848) of a real Apache broker and ours: the same heartbeats have the same answers."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from levada.groups.consumer import Client, Committer, ConsumerGroupSettings, Interval, check_commit, check_fetch
from levada.groups.group import ClassicGroupState, Group
from levada.groups.member import Member
from levada.model.error_codes import ErrorCode
from levada.net.channel import Channel
from levada.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from levada.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from levada.protocol.messages.consumer_protocol import (
    AssignedTopic,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedTopic,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from levada.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from levada.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from levada.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from levada.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from levada.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from levada.protocol.messages.metadata import MetadataRequest
from levada.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from levada.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from levada.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from levada.world.real_net import RealNet
from tests.interop import test_apache_broker
from tests.interop.test_apache_broker import JARS, ApacheBroker
from tests.unit.groups.consumer.harness import Coordinator

MAX_SIZE = 4
REBALANCE_MS = 60_000
SESSION_MS = 45_000
TRIES, PAUSE_SECONDS = 100, 0.1
NOT_YET = (14, 15, 16)
"""The coordinator is being loaded, or made."""

SETTINGS = {
    "group.consumer.max.size": MAX_SIZE,
    "group.consumer.assignment.interval.ms": 0,
    "group.initial.rebalance.delay.ms": 0,
}

Answer = dict[str, Any]


class Side:
    """One of the two brokers: what it is asked, and its answers in words that do not depend on ids."""

    name: str
    group_id: str
    classic_ids: dict[str, str]

    async def topic(self, name: str, partitions: int) -> None:
        raise NotImplementedError

    async def drop(self, name: str) -> None:
        raise NotImplementedError

    async def settle(self) -> None:
        """Let it do what it does in the background."""
        raise NotImplementedError

    def topic_ids(self) -> dict[str, bytes]:
        raise NotImplementedError

    async def send(self, request: ConsumerGroupHeartbeatRequest, version: int) -> ConsumerGroupHeartbeatResponse:
        raise NotImplementedError

    async def described(self) -> DescribedGroup:
        raise NotImplementedError

    async def beat(
        self,
        member_id: str,
        epoch: int,
        *topics: str,
        owned: dict[str, list[int]] | None = None,
        version: int = 1,
        **fields: Any,
    ) -> Answer:
        if epoch == 0:
            fields = {"rebalance_timeout_ms": REBALANCE_MS, **fields}
            fields.setdefault("subscribed_topic_names", list(topics))
            owned = {} if owned is None else owned
        elif topics:
            fields["subscribed_topic_names"] = list(topics)
        if owned is not None:
            ids = self.topic_ids()
            fields["topic_partitions"] = [
                RequestTopicPartitions(topic_id=ids[name], partitions=indexes) for name, indexes in owned.items()
            ]
        fields = {"group_id": self.group_id, **fields}
        request = ConsumerGroupHeartbeatRequest(member_id=member_id, member_epoch=epoch, **fields)
        reply = await self.send(request, version)
        names = {topic_id: name for name, topic_id in self.topic_ids().items()}
        assignment = None
        if reply.assignment is not None:
            assignment = {
                names.get(one.topic_id, "?"): sorted(one.partitions) for one in reply.assignment.topic_partitions
            }
        return {
            "code": reply.error_code,
            "text": self._without_ids(reply.error_message),
            "member": reply.member_id if member_id else bool(reply.member_id),
            "epoch": reply.member_epoch,
            "interval": reply.heartbeat_interval_ms,
            "assignment": assignment,
        }

    async def describe(self) -> Answer:
        group = await self.described()
        names = {member_id: name for name, member_id in self.classic_ids.items()}
        members = {
            names.get(member.member_id, member.member_id): {
                "instance": member.instance_id,
                "rack": member.rack_id,
                "epoch": member.member_epoch,
                "host": member.client_host,
                "names": sorted(member.subscribed_topic_names),
                "regex": member.subscribed_topic_regex,
                "has": {one.topic_name: sorted(one.partitions) for one in member.assignment.topic_partitions},
                "target": {one.topic_name: sorted(one.partitions) for one in member.target_assignment.topic_partitions},
                "type": member.member_type,
            }
            for member in group.members
        }
        return {
            "code": group.error_code,
            "text": group.error_message,
            "state": group.group_state,
            "epoch": group.group_epoch,
            "assignment epoch": group.assignment_epoch,
            "assignor": group.assignor_name,
            "members": members,
        }

    async def send_classic(self, request: Any, version: int) -> Any:
        raise NotImplementedError

    async def start_classic(self, *topics: str, user_data: bytes | None = None, type_: str = "consumer") -> None:
        """A classic group with one member, c1, that has assigned itself the first partition of each topic."""
        raise NotImplementedError

    def _without_ids(self, text: str | None) -> str | None:
        for name, member_id in self.classic_ids.items():
            text = None if text is None else text.replace(member_id, name)
        return text

    def id_of(self, name: str) -> str:
        return self.classic_ids.get(name, name)

    async def join(
        self,
        name: str,
        *topics: str,
        owned: dict[str, list[int]] | None = None,
        instance: str | None = None,
        protocols: tuple[str, ...] = ("range",),
        type_: str = "consumer",
        metadata: bytes | None = None,
    ) -> Answer:
        """JoinGroup of a classic member; one that is not known gets its id and joins with it."""
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.classic_ids.get(name, ""),
            group_instance_id=instance,
            protocol_type=type_,
            protocols=[
                JoinGroupRequestProtocol(name=one, metadata=metadata or subscription(topics, owned or {}))
                for one in protocols
            ],
        )
        reply = await self.send_classic(request, 9)
        if reply.member_id:
            self.classic_ids[name] = reply.member_id
        if reply.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            request.member_id = reply.member_id
            reply = await self.send_classic(request, 9)
        return {
            "code": reply.error_code,
            "generation": reply.generation_id,
            "type": reply.protocol_type,
            # Whether no name is null or empty is for the handler to say, by the version.
            "protocol": reply.protocol_name or None,
            "leader": reply.leader,
            "has id": bool(reply.member_id),
            "members": len(reply.members),
        }

    async def sync(
        self, name: str, generation: int, *, instance: str | None = None, protocol: str | None = "range"
    ) -> Answer:
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=generation,
            member_id=self.id_of(name),
            group_instance_id=instance,
            protocol_type="consumer",
            protocol_name=protocol,
            assignments=[],
        )
        reply = await self.send_classic(request, 5)
        assigned = {}
        if reply.assignment:
            decoded = decode_assignment(reply.assignment)
            assigned = {one.topic: sorted(one.partitions) for one in decoded.assigned_partitions}
        names = {"type": reply.protocol_type, "protocol": reply.protocol_name}
        return {"code": reply.error_code, "assigned": assigned, **names}

    async def classic_beat(self, name: str, generation: int, *, instance: str | None = None) -> Answer:
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=generation,
            member_id=self.id_of(name),
            group_instance_id=instance,
        )
        return {"code": (await self.send_classic(request, 4)).error_code}

    async def classic_leave(self, *names: str) -> Answer:
        identities = [MemberIdentity(member_id=self.id_of(name)) for name in names]
        reply = await self.send_classic(LeaveGroupRequest(group_id=self.group_id, members=identities), 5)
        return {"codes": [member.error_code for member in reply.members], "code": reply.error_code}

    async def commit(self, member_id: str, epoch: int, topic: str, *partitions: int, version: int = 9) -> Answer:
        """OffsetCommit; what is refused for one partition is refused for all."""
        raise NotImplementedError

    async def fetch(self, member_id: str | None, epoch: int) -> Answer:
        """OffsetFetch of all that was committed."""
        raise NotImplementedError


class ApacheSide(Side):
    name = "Apache"

    def __init__(self, channel: Channel, group_id: str) -> None:
        self.group_id = group_id
        self.classic_ids: dict[str, str] = {}
        self._channel = channel
        self._ids: dict[str, bytes] = {}

    async def topic(self, name: str, partitions: int) -> None:
        if name in self._ids:
            grown = CreatePartitionsTopic(name=name, count=partitions, assignments=None)
            await self._call(CreatePartitionsRequest(topics=[grown], timeout_ms=9_000, validate_only=False), 3)
        else:
            made = CreatableTopic(
                name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
            )
            await self._call(CreateTopicsRequest(topics=[made], timeout_ms=9_000), 7)
        await self._until(lambda topics: len(topics.get(name, ())) == partitions)

    async def drop(self, name: str) -> None:
        await self._call(
            DeleteTopicsRequest(topics=[DeleteTopicState(name=name, topic_id=bytes(16))], timeout_ms=9_000), 6
        )
        await self._until(lambda topics: name not in topics)

    async def settle(self) -> None:
        await asyncio.sleep(0.5)

    def topic_ids(self) -> dict[str, bytes]:
        return self._ids

    async def send(self, request: ConsumerGroupHeartbeatRequest, version: int) -> ConsumerGroupHeartbeatResponse:
        for _ in range(TRIES):
            reply: ConsumerGroupHeartbeatResponse = await self._call(request, version)
            if reply.error_code not in NOT_YET:
                return reply
            await asyncio.sleep(PAUSE_SECONDS)
        raise AssertionError(reply)

    async def described(self) -> DescribedGroup:
        request = ConsumerGroupDescribeRequest(group_ids=[self.group_id], include_authorized_operations=False)
        group: DescribedGroup = (await self._call(request, 1)).groups[0]
        return group

    async def send_classic(self, request: Any, version: int) -> Any:
        return await self._call(request, version)

    async def start_classic(self, *topics: str, user_data: bytes | None = None, type_: str = "consumer") -> None:
        for _ in range(TRIES):
            answer = await self.join("c1", *topics, type_=type_)
            if answer["code"] == ErrorCode.NONE:
                break
            await asyncio.sleep(PAUSE_SECONDS)
        assignment = SyncGroupRequestAssignment(
            member_id=self.id_of("c1"), assignment=first_partitions(topics, user_data)
        )
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=answer["generation"],
            member_id=self.id_of("c1"),
            protocol_type=type_,
            protocol_name="range",
            assignments=[assignment],
        )
        synced = await self._call(request, 5)
        assert synced.error_code == ErrorCode.NONE, (answer, synced)

    async def commit(self, member_id: str, epoch: int, topic: str, *partitions: int, version: int = 9) -> Answer:
        committed = OffsetCommitRequestTopic(
            name=topic,
            partitions=[
                OffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata="")
                for index in partitions
            ],
        )
        request = OffsetCommitRequest(
            group_id=self.group_id, generation_id_or_member_epoch=epoch, member_id=member_id, topics=[committed]
        )
        reply = await self._call(request, version)
        (code,) = {one.error_code for topic in reply.topics for one in topic.partitions}
        return {"code": code}

    async def fetch(self, member_id: str | None, epoch: int) -> Answer:
        group = OffsetFetchRequestGroup(group_id=self.group_id, member_id=member_id, member_epoch=epoch, topics=None)
        reply = await self._call(OffsetFetchRequest(groups=[group]), 9)
        return {"code": reply.groups[0].error_code}

    async def _until(self, condition: Callable[[dict[str, list[Any]]], bool]) -> None:
        for _ in range(TRIES):
            metadata = await self._call(MetadataRequest(topics=None), 12)
            self._ids.update({topic.name: topic.topic_id for topic in metadata.topics})
            if condition({topic.name: topic.partitions for topic in metadata.topics}):
                # Coordinators hear of it a little later than brokers that are asked for metadata.
                await asyncio.sleep(0.3)
                return
            await asyncio.sleep(PAUSE_SECONDS)
        raise AssertionError("the topic does not become what it should")

    async def _call(self, request: Any, version: int) -> Any:
        return await asyncio.wait_for(self._channel.call(request, version), 10)


class OurSide(Side):
    name = "ours"

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.classic_ids: dict[str, str] = {}
        settings = ConsumerGroupSettings(max_size=MAX_SIZE, assignment_interval=Interval(0, 0, 15_000))
        self._coordinator = Coordinator(settings)
        self._ids: dict[str, bytes] = {}

    async def topic(self, name: str, partitions: int) -> None:
        self._coordinator.topic(name, partitions)
        self._ids[name] = self._coordinator.topic_id(name)

    async def drop(self, name: str) -> None:
        self._coordinator.drop(name)

    async def settle(self) -> None:
        self._coordinator.expire()

    def topic_ids(self) -> dict[str, bytes]:
        return self._ids

    async def send(self, request: ConsumerGroupHeartbeatRequest, version: int) -> ConsumerGroupHeartbeatResponse:
        return self._coordinator.send(request, version)

    async def described(self) -> DescribedGroup:
        return self._coordinator.groups.describe(self.group_id, self._coordinator.now_ms)

    async def send_classic(self, request: Any, version: int) -> Any:
        coordinator, groups = self._coordinator, self._coordinator.groups
        now_ms = coordinator.now_ms
        if isinstance(request, JoinGroupRequest):
            joined = groups.join(request, Client("levada", "/127.0.0.1", version), now_ms)
            coordinator.write(joined.records)
            return joined.reply
        if isinstance(request, SyncGroupRequest):
            return groups.sync(request, now_ms)
        if isinstance(request, HeartbeatRequest):
            return HeartbeatResponse(error_code=groups.heartbeat_of_classic(request, now_ms))
        left = groups.leave(self.group_id, request.members, now_ms)
        coordinator.write(left.records)
        responses = [
            MemberResponse(member_id=one.member_id, group_instance_id=None, error_code=code)
            for one, code in zip(request.members, left.reply)
        ]
        return LeaveGroupResponse(members=responses)

    async def commit(self, member_id: str, epoch: int, topic: str, *partitions: int, version: int = 9) -> Answer:
        groups = self._coordinator.groups
        topic_id = self._ids[topic]
        committer = Committer(member_id, None, epoch, version)
        wanted = [(topic_id, index) for index in partitions]
        return {"code": check_commit(groups.groups[self.group_id], committer, wanted)}

    async def fetch(self, member_id: str | None, epoch: int) -> Answer:
        groups = self._coordinator.groups
        return {"code": check_fetch(groups.groups[self.group_id], member_id, epoch)}

    async def start_classic(self, *topics: str, user_data: bytes | None = None, type_: str = "consumer") -> None:
        self.classic_ids["c1"] = "c1"
        group = Group(self.group_id)
        group.generation, group.protocol_name, group.state = 1, "range", ClassicGroupState.STABLE
        member = Member("c1", None, SESSION_MS, REBALANCE_MS, {"range": subscription(topics, {})}, "", "/127.0.0.1")
        member.assignment = first_partitions(topics, user_data)
        group.add(member, type_)
        self._coordinator.classic[self.group_id] = group


def subscription(topics: Sequence[str], owned: Mapping[str, list[int]]) -> bytes:
    partitions = [OwnedTopic(topic=topic, partitions=indexes) for topic, indexes in owned.items()]
    return encode_subscription(ConsumerProtocolSubscription(topics=list(topics), owned_partitions=partitions))


def first_partitions(topics: Sequence[str], user_data: bytes | None) -> bytes:
    assigned = [AssignedTopic(topic=topic, partitions=[0]) for topic in topics]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=assigned, user_data=user_data))


Scenario = Callable[[Side], Awaitable[list[Answer]]]
SCENARIOS: list[Scenario] = []


def scenario(function: Scenario) -> Scenario:
    SCENARIOS.append(function)
    return function


def named(side: Side, name: str) -> str:
    """Topics are made once for each scenario: groups see each other's."""
    return f"{side.group_id}-{name}"


@scenario
async def requests_are_refused(side: Side) -> list[Answer]:
    a = named(side, "a")
    await side.topic(a, 1)
    return [
        await side.beat("", 0, a),
        await side.beat("", 5, version=0),
        await side.beat(" ", 0, a),
        await side.beat("m", 0, a, group_id=""),
        await side.beat("m", 0, a, group_id=" "),
        await side.beat("m", 0, a, instance_id=""),
        await side.beat("m", 0, a, rack_id="  "),
        await side.beat("m", 0, a, rebalance_timeout_ms=-1),
        await side.beat("m", 0, a, owned={a: [0]}),
        await side.beat("m", 0, subscribed_topic_names=None),
        await side.beat("m", -2),
        await side.beat("m", -3),
        await side.beat("m", 0, a, server_assignor="sticky"),
        await side.beat("m", 0, subscribed_topic_names=None, subscribed_topic_regex="[a"),
        await side.beat("m", 7),
        await side.beat("m", -1),
        await side.describe(),
        await side.beat("m", 0, a),
        await side.beat("stranger", 2),
        await side.beat("stranger", -1),
        await side.beat("m", 2, instance_id="unknown"),
        await side.beat("m", -2, instance_id="unknown"),
        await side.beat("m", 3),
        await side.beat("m", 1),
        await side.describe(),
    ]


@scenario
async def the_first_version_makes_member_ids(side: Side) -> list[Answer]:
    a = named(side, "a")
    await side.topic(a, 1)
    return [await side.beat("", 0, a, version=0)]


@scenario
async def two_members_share_a_topic(side: Side) -> list[Answer]:
    a = named(side, "a")
    await side.topic(a, 4)
    answers = [
        await side.beat("m1", 0, a),
        await side.beat("m1", 2, owned={a: [0, 1, 2, 3]}),
        await side.beat("m2", 0, a),
        await side.describe(),
        await side.beat("m2", 3),
        await side.beat("m1", 2),
        await side.describe(),
        await side.beat("m1", 2),
        await side.beat("m1", 2, owned={a: [0, 1, 2, 3]}),
        await side.beat("m1", 2, owned={a: [0, 1]}),
        await side.beat("m1", 2, owned={a: [0, 1]}),
        await side.beat("m1", 2, owned={a: [0, 1, 2]}),
        await side.beat("m2", 3),
        await side.beat("m2", 3),
        await side.describe(),
    ]
    return [
        *answers,
        await side.beat("m1", -1),
        await side.describe(),
        await side.beat("m2", 3),
        await side.beat("m2", 4, owned={a: [2, 3]}, rebalance_timeout_ms=10, subscribed_topic_names=[a]),
        await side.beat("m2", -1),
        await side.describe(),
        await side.beat("m3", 0, a),
    ]


@scenario
async def a_member_joins_again(side: Side) -> list[Answer]:
    a = named(side, "a")
    await side.topic(a, 2)
    return [
        await side.beat("m1", 0, a),
        await side.beat("m1", 0, a),
        await side.beat("m1", 2),
        await side.beat("m1", 1),
        await side.beat("m1", 1, owned={a: [0]}),
        await side.beat("m1", 0, a, rack_id="r"),
        await side.describe(),
    ]


@scenario
async def a_group_has_a_size(side: Side) -> list[Answer]:
    a = named(side, "a")
    await side.topic(a, 2)
    return [
        *[await side.beat(f"m{number}", 0, a) for number in range(MAX_SIZE + 1)],
        await side.beat("m1", 0, a),
        await side.beat("m4", 6),
        await side.beat("", 0, a, version=0),
    ]


@scenario
async def subscriptions_change(side: Side) -> list[Answer]:
    a, b = named(side, "a"), named(side, "b")
    await side.topic(a, 2)
    await side.topic(b, 2)
    return [
        await side.beat("m1", 0, a),
        await side.beat("m1", 2, a, b),
        await side.beat("m1", 3, b, owned={a: [0, 1], b: [0, 1]}),
        await side.describe(),
        await side.beat("m1", 3, owned={b: [0, 1]}),
        await side.describe(),
        await side.beat("m1", 4, named(side, "missing")),
        await side.beat("m1", 4, owned={}),
        await side.beat("m1", 5, subscribed_topic_names=[]),
        await side.beat("m1", 5),
        await side.beat("m1", 6),
        await side.describe(),
    ]


@scenario
async def topics_come_grow_and_go(side: Side) -> list[Answer]:
    a, b = named(side, "a"), named(side, "b")
    await side.topic(a, 1)
    answers = [await side.beat("m1", 0, a, b), await side.beat("m1", 2)]
    await side.topic(a, 2)
    answers += [await side.describe(), await side.beat("m1", 2), await side.beat("m1", 3)]
    await side.topic(b, 1)
    answers += [await side.beat("m1", 3), await side.beat("m1", 4, owned={a: [0, 1], b: [0]})]
    await side.drop(a)
    return [
        *answers,
        await side.beat("m1", 4),
        await side.describe(),
        await side.beat("m1", 4, owned={b: [0]}),
        await side.beat("m1", 5),
        await side.describe(),
    ]


@scenario
async def static_members_come_back(side: Side) -> list[Answer]:
    a = named(side, "a")
    await side.topic(a, 4)
    return [
        await side.beat("m1", 0, a, instance_id="one"),
        await side.beat("m2", 0, a, instance_id="two"),
        await side.beat("m1", 2, owned={a: [0, 1]}, instance_id="one"),
        await side.beat("m1", 3, instance_id="one"),
        await side.beat("m2", 3, instance_id="two"),
        await side.beat("thief", 0, a, instance_id="one"),
        await side.beat("thief", 3, instance_id="one"),
        await side.beat("thief", -2, instance_id="one"),
        await side.beat("m1", 3),
        await side.beat("m1", -2, instance_id="one"),
        await side.describe(),
        await side.beat("m1", 3, instance_id="one"),
        await side.beat("m2", 3, instance_id="two"),
        await side.beat("m3", 0, a, instance_id="one"),
        await side.beat("m1", 3, instance_id="one"),
        await side.describe(),
        await side.beat("m3", -2, instance_id="one"),
        await side.beat("m3", 0, a, named(side, "b"), instance_id="one"),
        await side.describe(),
        await side.beat("m3", -1, instance_id="one"),
        await side.describe(),
        await side.beat("m2", 3, instance_id="two"),
    ]


@scenario
async def assignors_are_voted_for(side: Side) -> list[Answer]:
    a = named(side, "a")
    await side.topic(a, 3)
    return [
        await side.beat("m1", 0, a, server_assignor="range"),
        await side.describe(),
        await side.beat("m2", 0, a, server_assignor="uniform"),
        await side.describe(),
        await side.beat("m3", 0, a, server_assignor="range"),
        await side.describe(),
        await side.beat("m1", 2, owned={a: [0]}, server_assignor="uniform"),
        await side.describe(),
        await side.beat("m4", 0, a, named(side, "x")),
        await side.describe(),
    ]


@scenario
async def topics_by_regular_expression(side: Side) -> list[Answer]:
    a, b = named(side, "xa"), named(side, "b")
    regex = f"{side.group_id}-x.*"
    await side.topic(a, 2)
    await side.topic(b, 2)
    answers = [
        await side.beat("m1", 0, subscribed_topic_names=None, subscribed_topic_regex=regex),
    ]
    await side.settle()
    answers += [
        await side.describe(),
        await side.beat("m1", 1),
        await side.beat("m1", 2, owned={a: [0, 1]}),
        await side.describe(),
        await side.beat("m2", 0, b, subscribed_topic_regex=regex),
        await side.beat("m1", 2, owned={a: [0, 1]}),
        await side.beat("m1", 2, owned={a: [0]}),
        await side.beat("m2", 3),
        await side.describe(),
        await side.beat("m2", 3, subscribed_topic_regex=""),
        await side.beat("m2", 3, owned={b: [0, 1]}),
        await side.beat("m2", 4, subscribed_topic_regex="("),
        await side.beat("m1", 3, b, subscribed_topic_regex="", owned={a: [0]}),
        await side.describe(),
    ]
    return answers


@scenario
async def a_lost_answer_is_repeated(side: Side) -> list[Answer]:
    a = named(side, "a")
    await side.topic(a, 2)
    return [
        await side.beat("m1", 0, a),
        await side.beat("m2", 0, a),
        await side.beat("m1", 2, owned={a: [0]}),
        await side.beat("m1", 2, owned={a: [0]}),
        await side.beat("m1", 2, owned={a: [0]}, rebalance_timeout_ms=1_000, subscribed_topic_names=[a]),
        await side.beat("m1", 2, owned={a: [0, 1]}),
        await side.beat("m1", 2),
        await side.describe(),
    ]


@scenario
async def a_classic_group_is_upgraded_and_goes_back(side: Side) -> list[Answer]:
    a = named(side, "a")
    await side.topic(a, 2)
    await side.start_classic(a)
    return [
        await side.describe(),
        await side.beat("m1", 7),
        await side.beat("m1", -1),
        await side.beat("m1", 0, a),
        await side.describe(),
        await side.classic_beat("c1", 1),
        await side.classic_beat("c1", 2),
        await side.classic_beat("stranger", 1),
        await side.classic_beat("m1", 2),
        await side.sync("c1", 1),
        await side.join("c1", a, owned={a: [0]}),
        await side.describe(),
        await side.sync("c1", 1),
        await side.sync("c1", 2, protocol="sticky"),
        await side.sync("c1", 2),
        await side.classic_beat("c1", 2),
        await side.beat("m1", 2, owned={a: [1]}),
        await side.classic_leave("stranger"),
        await side.beat("m1", -1),
        await side.describe(),
    ]


@scenario
async def classic_members_give_up_and_get(side: Side) -> list[Answer]:
    a = named(side, "a")
    # As many as can be shared evenly: which member gets more depends on the ids that a broker gives to classic members.
    await side.topic(a, 6)
    return [
        await side.beat("m1", 0, a),
        await side.join("c1", a, type_="connect"),
        await side.join("c1", a, protocols=()),
        await side.join("c1", a, metadata=b"x"),
        await side.join("c1", a),
        await side.describe(),
        await side.sync("c1", 3),
        await side.classic_beat("c1", 3),
        await side.beat("m1", 2, owned={a: [0, 1, 2, 3, 4, 5]}),
        await side.beat("m1", 2, owned={a: [0, 1, 2]}),
        await side.classic_beat("c1", 3),
        await side.join("c1", a, owned={}),
        await side.sync("c1", 3),
        await side.classic_beat("c1", 3),
        await side.join("c2", a, protocols=("sticky",)),
        await side.join("c2", a, protocols=("sticky", "range")),
        await side.describe(),
        await side.classic_beat("c1", 3),
        await side.join("c1", a, owned={a: [3, 4, 5]}),
        await side.describe(),
        await side.sync("c1", 3),
        await side.classic_beat("c1", 3),
        await side.join("c1", a, owned={a: [3, 4]}),
        await side.describe(),
        await side.beat("m1", 3, owned={a: [0, 1]}),
        await side.describe(),
        await side.classic_leave("c1", "stranger"),
        await side.describe(),
        await side.classic_leave("m1"),
        await side.describe(),
    ]


@scenario
async def groups_that_cannot_be_upgraded(side: Side) -> list[Answer]:
    a = named(side, "a")
    await side.topic(a, 2)
    await side.start_classic(a, user_data=b"secret")
    return [await side.beat("m1", 0, a), await side.describe()]


@scenario
async def groups_of_others_are_not_upgraded(side: Side) -> list[Answer]:
    a = named(side, "a")
    await side.topic(a, 2)
    await side.start_classic(a, type_="connect")
    return [await side.beat("m1", 0, a), await side.describe()]


@scenario
async def static_members_change_the_protocol(side: Side) -> list[Answer]:
    a = named(side, "a")
    await side.topic(a, 4)
    return [
        await side.beat("m1", 0, a, instance_id="one"),
        await side.beat("m2", 0, a, instance_id="two"),
        await side.beat("m1", 2, owned={a: [0, 1]}, instance_id="one"),
        await side.beat("m2", 3, instance_id="two"),
        await side.join("c2", a, instance="two"),
        await side.describe(),
        await side.beat("m2", 3, instance_id="two"),
        await side.sync("c2", 3, instance="two"),
        await side.classic_beat("c2", 3, instance="two"),
        await side.classic_beat("m2", 3, instance="two"),
        await side.classic_beat("c2", 3, instance="other"),
        await side.beat("m3", 0, a, instance_id="two"),
        await side.describe(),
        await side.join("c2", a, instance="two"),
        await side.describe(),
    ]


@scenario
async def the_last_static_member_takes_the_group_back(side: Side) -> list[Answer]:
    a = named(side, "a")
    await side.topic(a, 2)
    return [
        await side.beat("m1", 0, a, instance_id="one"),
        await side.beat("m1", -2, instance_id="one"),
        await side.join("c1", a, instance="one"),
        await side.describe(),
    ]


@scenario
async def offsets_are_fenced_by_epochs(side: Side) -> list[Answer]:
    a = named(side, "a")
    await side.topic(a, 4)
    answers = [
        await side.beat("m1", 0, a),
        await side.commit("m1", 2, a, 0, 1, 2, 3),
        await side.beat("m2", 0, a),
        await side.beat("m1", 2),
        await side.commit("m1", 2, a, 0, 3),
        await side.beat("m1", 2, owned={a: [0, 1]}),
        await side.beat("m2", 3),
    ]
    tries = [("m1", 3, (0, 1)), ("m1", 3, (2,)), ("m1", 2, (0, 1)), ("m1", 2, (0, 2)), ("m1", 1, (0,)), ("m1", 4, (0,))]
    tries += [("m2", 3, (2,)), ("m2", 2, (2,)), ("stranger", 3, (0,)), ("", -1, (0,)), ("m1", -1, (0,))]
    answers += [await side.commit(member_id, epoch, a, *partitions) for member_id, epoch, partitions in tries]
    answers += [await side.commit("m1", 3, a, 0, version=8)]
    fetches = [("m1", 3), ("m1", 2), ("m1", 4), ("stranger", 3), (None, -1), ("", -1)]
    answers += [await side.fetch(member_id, epoch) for member_id, epoch in fetches]
    answers += [await side.beat("m1", -1), await side.beat("m2", -1)]
    return [*answers, await side.commit("", -1, a, 0), await side.commit("m1", 3, a, 0), await side.fetch("m1", 3)]


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheBroker]:
    if shutil.which("java") is None:
        pytest.skip("Java is not installed, so Apache's broker was not compared with")
    if not JARS.exists():
        pytest.skip("Apache's broker is not here; test_apache_broker.py fetches it with Maven")
    broker = started(tmp_path_factory.mktemp("groups") / "apache")
    try:
        yield broker
    finally:
        broker.kill()


def started(directory: Path) -> ApacheBroker:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(test_apache_broker, "SETTINGS", test_apache_broker.SETTINGS | SETTINGS)
        broker = ApacheBroker(directory)
    try:
        broker.start()
    except BaseException:
        broker.kill()
        raise
    return broker


@pytest.mark.parametrize("told", SCENARIOS, ids=lambda told: told.__name__)
def test_answers_agree(apache: ApacheBroker, told: Scenario) -> None:
    asyncio.run(compare(apache.bootstrap, told))


async def compare(bootstrap: str, told: Scenario) -> None:
    group_id = told.__name__.replace("_", "-")
    host, _, port = bootstrap.rpartition(":")
    channel = await Channel.connect(RealNet(), host, int(port))
    try:
        await channel.call(FindCoordinatorRequest(coordinator_keys=[group_id], key_type=0), 4)
        theirs = await told(ApacheSide(channel, group_id))
    finally:
        channel.close()
    ours = await told(OurSide(group_id))
    assert len(theirs) == len(ours)
    for number, (their, our) in enumerate(zip(theirs, ours)):
        assert our == their, f"answer {number} of {told.__name__}"
