"""A coordinator whose clock is moved by hand, and members that need few words."""

from collections.abc import Callable
from itertools import count
from typing import Any, cast

from levada.coordination.shard import Shard
from levada.groups import (
    ClassicGroupState,
    CommittedOffset,
    Group,
    GroupCluster,
    GroupCounts,
    GroupMachine,
    GroupSettings,
    JoiningClient,
    commit_record,
)
from levada.metadata.image import Image
from levada.model.error_codes import ErrorCode
from levada.protocol.declare import NO_UUID
from levada.protocol.messages.heartbeat import HeartbeatRequest
from levada.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from levada.protocol.messages.leave_group import MemberIdentity
from levada.protocol.messages.offset_commit import OffsetCommitRequest
from levada.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.unit.groups.journals import MemoryJournal

NEWEST = 10
GROUP = "g"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
RANGE = {"range": b"topics"}

OLD_CLIENT = JoiningClient("old", "/127.0.0.1", 3)
"""Joins at once; most tests are not about member ids."""
NEW_CLIENT = JoiningClient("new", "/127.0.0.1", 9)


class Coordinator:
    """A shard with a clock; a parked request is a number until its reply is in `replies`."""

    def __init__(self, settings: GroupSettings | None = None, journal: MemoryJournal | None = None) -> None:
        self._chance = count(1)
        self._tokens = count(1)
        self.counts = GroupCounts()
        self._settings = settings or GroupSettings()
        self.now_ms = 1_000_000
        self.replies: dict[int, Any] = {}
        self.journal = journal or MemoryJournal()
        self.image = Image()
        self.load()

    def load(self) -> None:
        """Begin anew with what the journal holds, as another coordinator would."""
        cluster = GroupCluster(lambda: self.image, lambda _: {})
        machine = GroupMachine(
            self._settings, cluster, lambda size: next(self._chance).to_bytes(size, "big"), self.counts
        )
        self.shard = Shard(machine, self.journal)
        for record in self.journal.records():
            self.shard.load(record)
        self.shard.finish_loading(len(self.journal.entries), self.now_ms)
        self.collect()

    @property
    def machine(self) -> GroupMachine:
        return self.shard.machine

    def find(self, group_id: str = GROUP) -> Group | None:
        return self.machine.classic.find(group_id)

    @property
    def group(self) -> Group:
        group = self.find()
        assert group is not None
        return group

    def is_in(self, state: ClassicGroupState) -> bool:
        return self.group.state is state

    def run(self, operation: Callable[[GroupMachine, Any], None]) -> int:
        token = next(self._tokens)
        self.shard.run(lambda machine: operation(machine, token), self.now_ms)
        self.collect()
        return token

    def advance(self, milliseconds: int) -> None:
        """Let time pass, stopping at every deadline on the way as a driver would."""
        end_ms = self.now_ms + milliseconds
        while (deadline_ms := self.machine.deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.shard.expire(self.now_ms)
        self.now_ms = end_ms
        self.collect()

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: dict[str, bytes] | None = None,
        protocol_type: str = "consumer",
        joiner: JoiningClient = OLD_CLIENT,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        group: str = GROUP,
    ) -> int:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in (RANGE if protocols is None else protocols).items()
            ],
        )
        return self.run(lambda machine, token: machine.join(token, request, joiner, self.now_ms))

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        group: str = GROUP,
    ) -> int:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=name, assignment=assignment)
                for name, assignment in (assignments or {}).items()
            ],
        )
        return self.run(lambda machine, token: machine.sync(token, request, self.now_ms))

    def heartbeat(
        self, member_id: str, generation: int, *, instance: str | None = None, group: str = GROUP
    ) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        token = self.run(lambda machine, token: machine.heartbeat(token, request, self.now_ms))
        return cast(ErrorCode, self.replies[token])

    def leave(self, *leaving: str | tuple[str, str], group: str = GROUP) -> list[ErrorCode]:
        """Members by id, or by id and instance."""
        identities = [
            MemberIdentity(member_id=one)
            if isinstance(one, str)
            else MemberIdentity(member_id=one[0], group_instance_id=one[1])
            for one in leaving
        ]
        token = self.run(lambda machine, token: machine.leave(token, group, identities, self.now_ms))
        return cast("list[ErrorCode]", self.replies[token])

    def commit(
        self,
        member_id: str = "",
        generation: int = -1,
        *,
        instance: str | None = None,
        offset: int = 7,
        metadata: str = "",
        group: str = GROUP,
        topic: str = "topic",
        topic_id: bytes = NO_UUID,
    ) -> ErrorCode:
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            topics=[],
        )
        committed = CommittedOffset(offset, 0, metadata, self.now_ms, topic_id=topic_id)
        record = commit_record(group, topic, 0, committed)
        token = self.run(lambda machine, token: machine.commit(token, request, NEWEST, [record], self.now_ms))
        [code] = self.replies[token]
        return ErrorCode(code)

    def committed(self, group: str = GROUP, topic: str = "topic") -> int | None:
        """The offset that `commit` has left behind."""
        committed = self.machine.offsets.of(group).get(topic, {}).get(0)
        return None if committed is None else committed.offset

    def joined(self, token: int) -> JoinGroupResponse:
        return cast(JoinGroupResponse, self.replies[token])

    def synced(self, token: int) -> SyncGroupResponse:
        return cast(SyncGroupResponse, self.replies[token])

    def error(self, token: int) -> ErrorCode:
        return ErrorCode(self.replies[token].error_code)

    def is_parked(self, token: int) -> bool:
        return token not in self.replies

    def resign(self) -> None:
        self.shard.resign()
        self.collect()

    def prepared(self, size: int = 2, **settings: int) -> list[str]:
        """A new group in CompletingRebalance; the ids of its members, the leader first."""
        tokens = [self.join(**settings) for _ in range(size)]  # type: ignore[arg-type]
        self.advance(6_000)
        assert self.is_in(ClassicGroupState.COMPLETING_REBALANCE)
        return [self.joined(token).member_id for token in tokens]

    def stable(self, size: int = 2, **settings: int) -> list[str]:
        """A new group in Stable, in which every member has its own id for an assignment."""
        members = self.prepared(size, **settings)
        for member_id in reversed(members):
            self.sync(member_id, 1, {one: one.encode() for one in members})
        assert self.is_in(ClassicGroupState.STABLE)
        return members

    def collect(self) -> None:
        for token, reply in self.shard.take_output():
            assert isinstance(token, int)
            assert token not in self.replies, "a request was answered twice"
            self.replies[token] = reply
