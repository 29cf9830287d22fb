"""How a group gets from one generation to the next: which members are waited for, how long, and answered when."""

import logging
from enum import Enum
from typing import NamedTuple

from levada.coordination.shard import Outbox, Token
from levada.coordination.timers import Deadlines
from levada.groups.counts import GroupCounts
from levada.groups.group import ClassicGroupState, Group, InitialDelay
from levada.groups.group_records import metadata_record
from levada.groups.member import Member
from levada.groups.settings import GroupSettings
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from levada.protocol.messages.sync_group import SyncGroupResponse

logger = logging.getLogger(__name__)

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""A new member has no heartbeats to miss; if its client gave up, this is what ends its wait, as in Kafka."""

MIN_RETRY_MS = 1_000


class TimerKind(Enum):
    SESSION = "session"
    JOIN = "join"
    SYNC = "sync"


class ClassicTimer(NamedTuple):
    group_id: str
    kind: TimerKind
    member_id: str = ""


class Rebalance:
    """The phases of a rebalance, the same for every group."""

    def __init__(
        self, settings: GroupSettings, timers: Deadlines[ClassicTimer], outbox: Outbox, counts: GroupCounts
    ) -> None:
        self._settings = settings
        self._counts = counts
        self._timers = timers
        self._outbox = outbox

    def add(
        self, group: Group, member: Member, protocol_type: str, token: Token[JoinGroupResponse], now_ms: int
    ) -> None:
        """Let a new member in; it is answered when all have joined."""
        if group.initial_delay is not None:
            group.initial_delay.has_new_member = True
        member.is_new = True
        member.join_token = token
        group.add(member, protocol_type)
        session = ClassicTimer(group.group_id, TimerKind.SESSION, member.member_id)
        self._timers.set(session, now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
        self.prepare_or_go_on(group, f"{member.member_id} joined", now_ms)

    def rejoin(
        self, group: Group, member: Member, request: JoinGroupRequest, token: Token[JoinGroupResponse], now_ms: int
    ) -> None:
        """Take up what a member has changed, and rebalance."""
        group.update(member, request)
        self.park_join(member, token)
        self.prepare_or_go_on(group, f"{member.member_id} joined again", now_ms)

    def park_join(self, member: Member, token: Token[JoinGroupResponse]) -> None:
        # The client asks again on a new connection; the old one must not wait for ever if it still lives.
        self.answer_join(member, refused_join(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS))
        member.join_token = token

    def park_sync(self, member: Member, token: Token[SyncGroupResponse]) -> None:
        self.answer_sync(member, refused_sync(ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync_token = token

    def prepare_or_go_on(self, group: Group, reason: str, now_ms: int) -> None:
        """Something changed that the next generation must know."""
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            self.complete_join_if_all_joined(group, now_ms)
        else:
            self.prepare(group, reason, now_ms)

    def prepare(self, group: Group, reason: str, now_ms: int) -> None:
        """Ask every member to join again."""
        logger.info("preparing rebalance group=%r generation=%d reason=%r", group.group_id, group.generation, reason)
        if group.state is ClassicGroupState.COMPLETING_REBALANCE:
            for member in group.members.values():
                member.assignment = b""
                self._propagate(group, member, refused_sync(ErrorCode.REBALANCE_IN_PROGRESS), now_ms)
        self._timers.cancel(ClassicTimer(group.group_id, TimerKind.SYNC))
        is_initial = group.state is ClassicGroupState.EMPTY
        group.move_to(ClassicGroupState.PREPARING_REBALANCE, now_ms)
        if is_initial:
            delay_ms = self._settings.initial_rebalance_delay_ms
            group.initial_delay = InitialDelay(max(group.rebalance_timeout_ms - delay_ms, 0))
            self._timers.set(ClassicTimer(group.group_id, TimerKind.JOIN), now_ms + delay_ms)
        elif group.have_all_joined():
            self._complete_join(group, now_ms)
        else:
            self._timers.set(ClassicTimer(group.group_id, TimerKind.JOIN), now_ms + group.rebalance_timeout_ms)

    def complete_join_if_all_joined(self, group: Group, now_ms: int) -> None:
        """Go on before the time is up; the first rebalance of a group waits for members it does not know yet."""
        if (
            group.state is ClassicGroupState.PREPARING_REBALANCE
            and group.initial_delay is None
            and group.have_all_joined()
        ):
            self._complete_join(group, now_ms)

    def expire_join(self, group: Group, now_ms: int) -> None:
        """The time for joining is up, unless new members still come."""
        initial = group.initial_delay
        if initial is None or not initial.has_new_member:
            self._complete_join(group, now_ms)
            return
        delay_ms = min(self._settings.initial_rebalance_delay_ms, initial.remaining_ms)
        group.initial_delay = InitialDelay(initial.remaining_ms - delay_ms)
        self._timers.set(ClassicTimer(group.group_id, TimerKind.JOIN), now_ms + delay_ms)

    def _complete_join(self, group: Group, now_ms: int) -> None:
        join_timer = ClassicTimer(group.group_id, TimerKind.JOIN)
        self._timers.cancel(join_timer)
        for member in list(group.members.values()):
            # A static member keeps its place until its session ends (KIP-345).
            if member.join_token is None and member.instance_id is None:
                self.remove(group, member)
        if not group.elect_leader() and group.members:
            # Static members alone are left and none has joined: their sessions decide. A timeout of 0 must not spin.
            self._timers.set(join_timer, now_ms + max(group.rebalance_timeout_ms, MIN_RETRY_MS))
            return
        group.start_generation(now_ms)
        logger.info(
            "rebalanced group=%r generation=%d members=%d", group.group_id, group.generation, len(group.members)
        )
        if group.state is ClassicGroupState.EMPTY:
            self._outbox.write([metadata_record(group)])
            return
        for member in group.members.values():
            self.answer_join(member, joined(group, member))
            self.restart_session(group, member, now_ms)
            member.is_new = False
            member.must_sync = True
        self._timers.set(ClassicTimer(group.group_id, TimerKind.SYNC), now_ms + group.rebalance_timeout_ms)

    def assign(self, group: Group, assignments: dict[str, bytes], now_ms: int) -> None:
        """The leader has spoken: every member that asked gets its part, the others when they ask."""
        group.move_to(ClassicGroupState.STABLE, now_ms)
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            self._propagate(group, member, synced(group, member), now_ms)
        self._outbox.write([metadata_record(group)])
        self._outbox.then.append(self._count)
        self._outbox.undo.append(lambda now_ms: self._take_back(group, now_ms))

    def _count(self, _: int) -> None:
        self._counts.classic_rebalances += 1

    def _take_back(self, group: Group, now_ms: int) -> None:
        """The assignment could not be written down, so it does not hold."""
        for member in group.members.values():
            member.assignment = b""
        self.prepare(group, "the assignment could not be written", now_ms)

    def note_sync(self, group: Group, member: Member) -> None:
        member.must_sync = False
        if not any(other.must_sync for other in group.members.values()):
            self._timers.cancel(ClassicTimer(group.group_id, TimerKind.SYNC))

    def expire_sync(self, group: Group, now_ms: int) -> None:
        """Members that did not ask for their assignment in time are gone."""
        for member in [member for member in group.members.values() if member.must_sync]:
            self.remove(group, member)
        self.prepare(group, "members did not sync in time", now_ms)

    def expire_session(self, group: Group, member: Member, now_ms: int) -> None:
        # A member that waits for us cannot be late; its session starts again with the answer.
        if not member.is_waiting:
            self.remove(group, member)
            if group.state is ClassicGroupState.PREPARING_REBALANCE:
                self.stop_waiting(group, now_ms)
            else:
                self.prepare(group, f"{member.member_id} missed its heartbeats", now_ms)

    def remove(self, group: Group, member: Member) -> None:
        self._timers.cancel(ClassicTimer(group.group_id, TimerKind.SESSION, member.member_id))
        self.answer_join(member, refused_join("", ErrorCode.UNKNOWN_MEMBER_ID))
        self.answer_sync(member, refused_sync(ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member)

    def stop_waiting(self, group: Group, now_ms: int) -> None:
        """A member that was waited for has failed; as in Kafka, this can end even a first rebalance early."""
        if group.state is ClassicGroupState.PREPARING_REBALANCE and group.have_all_joined():
            self._complete_join(group, now_ms)

    def dismiss(self, group: Group, code: ErrorCode) -> None:
        """Answer the members whose JoinGroup or SyncGroup waits: its generation will not come."""
        for member in group.members.values():
            self.answer_join(member, refused_join(member.member_id, code))
            self.answer_sync(member, refused_sync(code))

    def restart_session(self, group: Group, member: Member, now_ms: int) -> None:
        session = ClassicTimer(group.group_id, TimerKind.SESSION, member.member_id)
        self._timers.set(session, now_ms + member.session_timeout_ms)

    def answer_join(self, member: Member, reply: JoinGroupResponse) -> None:
        if member.join_token is not None:
            self._outbox.answer(member.join_token, reply)
            member.join_token = None

    def answer_sync(self, member: Member, reply: SyncGroupResponse) -> None:
        if member.sync_token is not None:
            self._outbox.answer(member.sync_token, reply)
            member.sync_token = None

    def _propagate(self, group: Group, member: Member, reply: SyncGroupResponse, now_ms: int) -> None:
        if member.sync_token is not None:
            self.answer_sync(member, reply)
            self.restart_session(group, member, now_ms)


def refused_join(member_id: str, code: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, protocol_name="", leader="", member_id=member_id, members=[])


def refused_sync(code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code, assignment=b"")


def joined(group: Group, member: Member) -> JoinGroupResponse:
    """What a member learns of its generation; the leader alone hears of the others, to assign them their parts."""
    assert group.protocol_name is not None
    assert group.leader is not None
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader,
        member_id=member.member_id,
        members=_described(group, group.protocol_name) if member.member_id == group.leader else [],
    )


def synced(group: Group, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )


def _described(group: Group, protocol_name: str) -> list[JoinGroupResponseMember]:
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.protocols[protocol_name],
        )
        for member in group.members.values()
    ]
