"""A coordinator whose clock is moved by hand, and members that need few words."""

from itertools import count
from typing import cast

from penstock.groups import CommittedOffset, Group, Groups, GroupSettings, Joiner, NewOffset, Reply, State
from penstock.model.errors import ErrorCode
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from penstock.protocol.messages.leave_group import MemberIdentity
from penstock.protocol.messages.offset_commit import OffsetCommitRequest
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

GROUP = "g"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
RANGE = {"range": b"topics"}

OLD_CLIENT = Joiner("old", needs_member_id_first=False, can_skip_assignment=False)
"""Joins at once; most tests are not about member ids."""
NEW_CLIENT = Joiner("new", needs_member_id_first=True, can_skip_assignment=True)


class Coordinator:
    """Groups with a clock; a parked request is a number until its reply is in `replies`."""

    def __init__(self, settings: GroupSettings | None = None) -> None:
        self._chance = count(1)
        self._tokens = count(1)
        self.groups = Groups(settings or GroupSettings(), lambda size: next(self._chance).to_bytes(size, "big"))
        self.now_ms = 1_000_000
        self.replies: dict[int, Reply] = {}

    @property
    def group(self) -> Group:
        group = self.groups.find(GROUP)
        assert group is not None
        return group

    def is_in(self, state: State) -> bool:
        return self.group.state is state

    def advance(self, milliseconds: int) -> None:
        """Let time pass, stopping at every deadline on the way as a driver would."""
        end_ms = self.now_ms + milliseconds
        while (deadline_ms := self.groups.deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.groups.expire(self.now_ms)
        self.now_ms = end_ms
        self._collect()

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: dict[str, bytes] | None = None,
        protocol_type: str = "consumer",
        joiner: Joiner = OLD_CLIENT,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        group: str = GROUP,
    ) -> int:
        token = next(self._tokens)
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
        self.groups.join(token, request, joiner, self.now_ms)
        self._collect()
        return token

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
        token = next(self._tokens)
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
        self.groups.sync(token, request, self.now_ms)
        self._collect()
        return token

    def heartbeat(
        self, member_id: str, generation: int, *, instance: str | None = None, group: str = GROUP
    ) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        code = self.groups.heartbeat(request, self.now_ms)
        self._collect()
        return code

    def leave(self, *leaving: str | tuple[str, str], group: str = GROUP) -> list[ErrorCode]:
        """Members by id, or by id and instance."""
        identities = [
            MemberIdentity(member_id=one)
            if isinstance(one, str)
            else MemberIdentity(member_id=one[0], group_instance_id=one[1])
            for one in leaving
        ]
        codes = self.groups.leave(group, identities, self.now_ms)
        self._collect()
        return codes

    def commit(
        self,
        member_id: str = "",
        generation: int = -1,
        *,
        instance: str | None = None,
        offset: int = 7,
        metadata: str = "",
        group: str = GROUP,
    ) -> ErrorCode:
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            topics=[],
        )
        new = NewOffset("topic", 0, CommittedOffset(offset, 0, metadata))
        [code] = self.groups.commit(request, [new], self.now_ms)
        self._collect()
        return code

    def committed(self) -> int | None:
        """The offset that `commit` has left behind."""
        committed = self.group.offsets.get("topic", {}).get(0)
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
        self.groups.resign()
        self._collect()

    def prepared(self, size: int = 2, **settings: int) -> list[str]:
        """A new group in CompletingRebalance; the ids of its members, the leader first."""
        tokens = [self.join(**settings) for _ in range(size)]  # type: ignore[arg-type]
        self.advance(6_000)
        assert self.is_in(State.COMPLETING_REBALANCE)
        return [self.joined(token).member_id for token in tokens]

    def stable(self, size: int = 2, **settings: int) -> list[str]:
        """A new group in Stable, in which every member has its own id for an assignment."""
        members = self.prepared(size, **settings)
        for member_id in reversed(members):
            self.sync(member_id, 1, {one: one.encode() for one in members})
        assert self.is_in(State.STABLE)
        return members

    def _collect(self) -> None:
        for token, reply in self.groups.take_output():
            assert isinstance(token, int)
            assert token not in self.replies, "a request was answered twice"
            self.replies[token] = reply
