"""The group APIs as a client sees them, in every version."""

import asyncio
import inspect
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from levada.broker.broker import Broker
from levada.broker.handlers import (
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from levada.broker.route import Request
from levada.groups import CommittedOffset, GroupMachine, GroupSettings, commit_record
from levada.metadata.delta import apply
from levada.metadata.image import Image
from levada.metadata.records import PartitionRecord, TopicRecord
from levada.model.error_codes import ErrorCode
from levada.protocol.api import request_class, response_class
from levada.protocol.codec import decode, encode
from levada.protocol.messages.heartbeat import HeartbeatRequest
from levada.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from levada.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from levada.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from levada.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from levada.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from levada.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from levada.world.real import RealClock
from tests.unit.broker.hosted_groups import coordinator_of, loaded, offsets_partition


class Client:
    """Sends requests through the codec, in one version of one API at a time."""

    def __init__(self, directory: Path) -> None:
        self.topic_id = bytes(range(16))
        settings = GroupSettings(initial_rebalance_delay_ms=0, max_offset_metadata_size=10)
        self.coordinator = coordinator_of(settings, RealClock(), image=lambda: self.broker.image)
        self.partition = offsets_partition(directory)
        records = [
            TopicRecord(name="orders", topic_id=self.topic_id),
            *(PartitionRecord(partition_id=index, topic_id=self.topic_id, replicas=[1], isr=[1]) for index in range(2)),
        ]
        # The two parts of a broker that groups need.
        parts = SimpleNamespace(groups=self.coordinator, image=apply(Image(), records, 2), clock=RealClock())
        self.broker = cast(Broker, parts)

    @property
    def machine(self) -> GroupMachine:
        [machine] = self.coordinator.machines()
        return machine

    def committed(self) -> CommittedOffset:
        return self.machine.offsets.of("g")["orders"][0]

    async def send(self, handler: ModuleType, message: Any, version: int) -> Any:
        if not self.coordinator.machines():
            await loaded(self.coordinator, self.partition)
        sent = b"".join(bytes(piece) for piece in encode(message, version))  # type: ignore[arg-type]
        received = decode(request_class(handler.API), version, memoryview(sent))
        handled = handler.handle(received, Request(version, "client", "peer", self.broker, {}))
        response = await handled if inspect.isawaitable(handled) else handled
        answered = b"".join(bytes(piece) for piece in encode(response, version))  # type: ignore[arg-type]
        return decode(response_class(handler.API), version, memoryview(answered))

    async def join(self, version: int = 9, group_id: str = "g") -> Any:
        """Join as a client of that version does, with a second request where it takes two."""
        request = join_request(group_id, "")
        reply = await self.send(join_group, request, version)
        if reply.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            reply = await self.send(join_group, join_request(group_id, reply.member_id), version)
        return reply

    async def join_and_sync(self) -> str:
        reply = await self.join()
        assignment = SyncGroupRequestAssignment(member_id=reply.member_id, assignment=b"mine")
        request = sync_request(reply.member_id, [assignment])
        assert (await self.send(sync_group, request, 5)).assignment == b"mine"
        return str(reply.member_id)


def join_request(group_id: str, member_id: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"topics")],
    )


def sync_request(member_id: str, assignments: list[SyncGroupRequestAssignment]) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id="g",
        generation_id=1,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=assignments,
    )


def commit_request(
    client: Client,
    version: int,
    *,
    partition: int = 0,
    topic: str = "orders",
    topic_id: bytes | None = None,
    metadata: str | None = "note",
    member_id: str = "",
    generation: int = -1,
) -> OffsetCommitRequest:
    wanted = OffsetCommitRequestPartition(partition_index=partition, committed_offset=42, committed_metadata=metadata)
    if version >= 6:
        wanted.committed_leader_epoch = 3
    topics = [OffsetCommitRequestTopic(name=topic, topic_id=topic_id or client.topic_id, partitions=[wanted])]
    return OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=generation, member_id=member_id, topics=topics
    )


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path)


@pytest.mark.parametrize("version", join_group.VERSIONS)
def test_join_group_in_every_version(client: Client, version: int) -> None:
    async def main() -> None:
        reply = await client.join(version)
        assert reply.error_code == ErrorCode.NONE
        assert reply.generation_id == 1
        assert reply.protocol_name == "range"
        assert reply.protocol_type == ("consumer" if version >= 7 else None)
        assert reply.leader == reply.member_id
        assert reply.member_id.startswith("client-")
        assert [member.metadata for member in reply.members] == [b"topics"]
        refusal = await client.join(version, group_id="")
        assert (refusal.error_code, refusal.generation_id) == (ErrorCode.INVALID_GROUP_ID, -1)
        unknown = await client.send(join_group, join_request("unknown", "who"), version)
        assert unknown.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        # As Apache does: a protocol is either chosen or, as soon as the version can say so, null.
        assert refusal.protocol_name == unknown.protocol_name == (None if version >= 7 else "")

    asyncio.run(main())


@pytest.mark.parametrize(("version", "is_required"), [(0, False), (3, False), (4, True), (9, True)])
def test_join_group_requires_a_member_id_from_version_4(client: Client, version: int, is_required: bool) -> None:
    async def main() -> None:
        reply = await client.send(join_group, join_request("g", ""), version)
        assert (reply.error_code == ErrorCode.MEMBER_ID_REQUIRED) == is_required

    asyncio.run(main())


def test_join_group_0_rebalances_within_its_session_timeout(client: Client) -> None:
    async def main() -> None:
        reply = await client.join(0)
        group = client.machine.classic.find("g")
        assert group is not None
        assert group.members[reply.member_id].rebalance_timeout_ms == 10_000

    asyncio.run(main())


@pytest.mark.parametrize("version", sync_group.VERSIONS)
def test_sync_group_in_every_version(client: Client, version: int) -> None:
    async def main() -> None:
        member_id = (await client.join()).member_id
        assignment = SyncGroupRequestAssignment(member_id=member_id, assignment=b"mine")
        reply = await client.send(sync_group, sync_request(member_id, [assignment]), version)
        assert (reply.error_code, reply.assignment) == (ErrorCode.NONE, b"mine")
        assert (reply.protocol_type, reply.protocol_name) == (("consumer", "range") if version >= 5 else (None, None))
        refusal = await client.send(sync_group, sync_request("stranger", []), version)
        assert (refusal.error_code, refusal.assignment) == (ErrorCode.UNKNOWN_MEMBER_ID, b"")

    asyncio.run(main())


def test_sync_group_5_must_name_its_protocol(client: Client) -> None:
    async def main() -> None:
        member_id = (await client.join()).member_id
        request = sync_request(member_id, [])
        request.protocol_name = None
        reply = await client.send(sync_group, request, 5)
        assert reply.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert (await client.send(sync_group, request, 4)).error_code == ErrorCode.NONE

    asyncio.run(main())


@pytest.mark.parametrize("version", heartbeat.VERSIONS)
def test_heartbeat_in_every_version(client: Client, version: int) -> None:
    async def main() -> None:
        member_id = await client.join_and_sync()
        for generation, code in ((1, ErrorCode.NONE), (2, ErrorCode.ILLEGAL_GENERATION)):
            request = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)
            assert (await client.send(heartbeat, request, version)).error_code == code

    asyncio.run(main())


@pytest.mark.parametrize("version", leave_group.VERSIONS)
def test_leave_group_in_every_version(client: Client, version: int) -> None:
    def request(member_id: str, group_id: str = "g") -> LeaveGroupRequest:
        if version < 3:
            return LeaveGroupRequest(group_id=group_id, member_id=member_id)
        return LeaveGroupRequest(group_id=group_id, members=[MemberIdentity(member_id=member_id)])

    async def leave(member_id: str, group_id: str = "g") -> tuple[int, list[tuple[str, int]]]:
        reply = await client.send(leave_group, request(member_id, group_id), version)
        return reply.error_code, [(member.member_id, member.error_code) for member in reply.members]

    async def main() -> None:
        member_id = await client.join_and_sync()
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        assert await leave(member_id, group_id="") == (ErrorCode.INVALID_GROUP_ID, [])
        if version < 3:
            assert await leave("stranger") == (unknown, [])
            assert await leave(member_id) == (ErrorCode.NONE, [])
            assert await leave(member_id, group_id="other") == (unknown, [])
        else:
            assert await leave("stranger") == (ErrorCode.NONE, [("stranger", unknown)])
            assert await leave(member_id) == (ErrorCode.NONE, [(member_id, ErrorCode.NONE)])
            assert await leave(member_id, group_id="other") == (ErrorCode.NONE, [(member_id, unknown)])

    asyncio.run(main())


@pytest.mark.parametrize("version", offset_commit.VERSIONS)
def test_offset_commit_in_every_version(client: Client, version: int) -> None:
    async def commit(**fields: Any) -> int:
        reply = await client.send(offset_commit, commit_request(client, version, **fields), version)
        [topic] = reply.topics
        [partition] = topic.partitions
        assert topic.name == ("" if version >= 10 else fields.get("topic", "orders"))
        assert topic.topic_id == (fields.get("topic_id", client.topic_id) if version >= 10 else bytes(16))
        return int(partition.error_code)

    async def main() -> None:
        missing = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await commit(topic="nothing", topic_id=b"n" * 16) == missing
        assert await commit(partition=2) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await commit(partition=-1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert client.machine.classic.find("g") is None, "nothing was committed that could make a group"
        unknown = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
        assert await commit(member_id="stranger", generation=1) == unknown
        assert await commit(metadata="longer than it may be") == ErrorCode.OFFSET_METADATA_TOO_LARGE
        assert await commit() == ErrorCode.NONE
        committed = client.committed()
        assert (committed.offset, committed.leader_epoch, committed.metadata) == (42, 3 if version >= 6 else -1, "note")
        assert await commit(metadata=None) == ErrorCode.NONE
        assert client.committed().metadata == ""

    asyncio.run(main())


@pytest.mark.parametrize("retention_ms", [2**63 - 1, -(2**63), 0])
def test_an_offset_may_be_kept_for_as_long_as_a_number_can_say(client: Client, retention_ms: int) -> None:
    async def main() -> None:
        message = commit_request(client, 4)
        message.retention_time_ms = retention_ms
        reply = await client.send(offset_commit, message, 4)
        assert reply.topics[0].partitions[0].error_code == ErrorCode.NONE

    asyncio.run(main())


def test_a_commit_is_refused_partition_by_partition(client: Client) -> None:
    async def main() -> None:
        request = commit_request(client, 9)
        good = request.topics[0].partitions[0]
        bad = OffsetCommitRequestPartition(partition_index=9, committed_offset=1, committed_metadata="")
        request.topics[0].partitions = [bad, good, bad]
        reply = await client.send(offset_commit, request, 9)
        codes = [partition.error_code for partition in reply.topics[0].partitions]
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert codes == [missing, ErrorCode.NONE, missing]

    asyncio.run(main())


def fetch_request(client: Client, version: int, *, is_all: bool = False) -> OffsetFetchRequest:
    if version < 8:
        wanted = [OffsetFetchRequestTopic(name=name, partition_indexes=[0, 1]) for name in ("orders", "nothing")]
        return OffsetFetchRequest(group_id="g", topics=None if is_all else wanted)
    by_id = [
        OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=[0, 1])
        for name, topic_id in (("orders", client.topic_id), ("nothing", b"n" * 16))
    ]
    groups = [OffsetFetchRequestGroup(group_id=name, topics=None if is_all else by_id) for name in ("g", "unknown")]
    return OffsetFetchRequest(groups=groups)


def found(topics: list[Any]) -> list[tuple[int, int, str, int]]:
    return [
        (partition.partition_index, partition.committed_offset, partition.metadata, partition.error_code)
        for topic in topics
        for partition in topic.partitions
    ]


@pytest.mark.parametrize("version", offset_fetch.VERSIONS)
def test_offset_fetch_in_every_version(client: Client, version: int) -> None:
    async def main() -> None:
        await client.send(offset_commit, commit_request(client, 10), 10)
        reply = await client.send(offset_fetch, fetch_request(client, version), version)
        missing = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.NONE
        nothing = [(0, -1, "", missing), (1, -1, "", missing)]
        never = (1, -1, "", ErrorCode.NONE)
        expected = [(0, 42, "note", ErrorCode.NONE), never, *nothing]
        if version < 8:
            assert found(reply.topics) == expected
            assert [topic.name for topic in reply.topics] == ["orders", "nothing"]
            return
        known, unknown = reply.groups
        assert (known.group_id, known.error_code, found(known.topics)) == ("g", ErrorCode.NONE, expected)
        assert found(unknown.topics) == [(0, -1, "", ErrorCode.NONE), never, *nothing]
        assert known.topics[0].partitions[0].committed_leader_epoch == 3
        if version >= 10:
            assert [topic.topic_id for topic in known.topics] == [client.topic_id, b"n" * 16]

    asyncio.run(main())


@pytest.mark.parametrize("version", [9, 10])
def test_offset_fetch_by_id_leaves_out_topics_that_are_no_more(client: Client, version: int) -> None:
    async def main() -> None:
        gone = commit_record("g", "gone", 0, CommittedOffset(1, 0, "", 0))
        await loaded(client.coordinator, client.partition)
        _: list[ErrorCode] = await client.coordinator.submit(
            "g", lambda machine, token, now_ms: machine.commit(token, commit_request(client, 10), 10, [gone], now_ms)
        )
        reply = await client.send(offset_fetch, fetch_request(client, version, is_all=True), version)
        assert [topic.name for topic in reply.groups[0].topics] == ([] if version >= 10 else ["gone"])

    asyncio.run(main())


@pytest.mark.parametrize("version", [version for version in offset_fetch.VERSIONS if version >= 2])
def test_offset_fetch_of_null_gives_all_that_was_committed(client: Client, version: int) -> None:
    async def main() -> None:
        await client.send(offset_commit, commit_request(client, 10), 10)
        reply = await client.send(offset_fetch, fetch_request(client, version, is_all=True), version)
        topics = reply.topics if version < 8 else reply.groups[0].topics
        assert found(topics) == [(0, 42, "note", ErrorCode.NONE)]
        if version >= 10:
            assert topics[0].topic_id == client.topic_id
        else:
            assert topics[0].name == "orders"
        if version >= 8:
            assert reply.groups[1].topics == []

    asyncio.run(main())


def test_offset_delete_needs_a_group_even_where_one_without_a_name_has_offsets(client: Client) -> None:
    async def main() -> None:
        nameless = commit_request(client, 9)
        nameless.group_id = ""
        committed = await client.send(offset_commit, nameless, 9)
        assert committed.topics[0].partitions[0].error_code == ErrorCode.NONE
        topic = OffsetDeleteRequestTopic(name="orders", partitions=[OffsetDeleteRequestPartition(partition_index=0)])
        refusal = await client.send(offset_delete, OffsetDeleteRequest(group_id="", topics=[topic]), 0)
        assert (refusal.error_code, refusal.topics) == (ErrorCode.INVALID_GROUP_ID, [])

    asyncio.run(main())
