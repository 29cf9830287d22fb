"""A consumer group (KIP-848) at a real Apache broker and one at ours, asked in the same words."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

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
from tests.unit.groups.consumer.harness import Coordinator

MAX_SIZE = 4
REBALANCE_MS = 60_000
SESSION_MS = 45_000
TRIES, PAUSE_SECONDS = 100, 0.1
NOT_YET = (14, 15, 16)
"""The coordinator is being loaded, or made."""

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
