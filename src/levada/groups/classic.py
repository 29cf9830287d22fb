"""Groups whose members assign themselves their partitions: join, sync, heartbeat, leave."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from levada.coordination.shard import Outbox, Token
from levada.coordination.timers import Deadlines
from levada.groups.counts import GroupCounts
from levada.groups.group import ClassicGroupState, Group
from levada.groups.group_records import group_from, metadata_record
from levada.groups.member import Member, protocols_of
from levada.groups.rebalance import ClassicTimer, Rebalance, TimerKind, joined, refused_join, refused_sync, synced
from levada.groups.records import GroupMetadataKey, GroupMetadataValue
from levada.groups.settings import GroupSettings
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.heartbeat import HeartbeatRequest
from levada.protocol.messages.join_group import (
    MEMBER_ID_SINCE,
    SKIP_ASSIGNMENT_SINCE,
    JoinGroupRequest,
    JoinGroupResponse,
)
from levada.protocol.messages.leave_group import MemberIdentity
from levada.protocol.messages.offset_commit import OffsetCommitRequest
from levada.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

MAX_PREFIX_LENGTH = 1_000
"""Of a member's id. It begins with what the client calls itself, and must fit a string of 32,767 bytes in the end."""

HEARTBEAT_ANSWERS = {
    ClassicGroupState.PREPARING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    ClassicGroupState.COMPLETING_REBALANCE: ErrorCode.NONE,
    ClassicGroupState.STABLE: ErrorCode.NONE,
}


@dataclass(frozen=True, slots=True)
class JoiningClient:
    """What a JoinGroup's version and header say about its client."""

    client_id: str
    client_host: str
    version: int

    @property
    def needs_member_id_first(self) -> bool:
        """Takes MEMBER_ID_REQUIRED for an answer (KIP-394)."""
        return self.version >= MEMBER_ID_SINCE

    @property
    def can_skip_assignment(self) -> bool:
        """A leader that returns may be told that nothing is to be assigned (KIP-814)."""
        return self.version >= SKIP_ASSIGNMENT_SINCE


class ClassicGroups:
    """Every operation takes the time; replies and records go to the outbox.

    Which members have joined and which are waited for lives in memory alone, as in Kafka: a new coordinator learns it
    by asking all to join again. What a record keeps is a generation with its assignment.
    """

    def __init__(
        self,
        settings: GroupSettings,
        random_bytes: Callable[[int], bytes],
        timers: Deadlines[ClassicTimer],
        outbox: Outbox,
        counts: GroupCounts,
    ) -> None:
        self._settings = settings
        self._random_bytes = random_bytes
        self._timers = timers
        self._outbox = outbox
        self._rebalance = Rebalance(settings, timers, outbox, counts)
        self._groups: dict[str, Group] = {}
        self._is_loading = True

    def find(self, group_id: str) -> Group | None:
        return self._groups.get(group_id)

    def all(self) -> Iterable[Group]:
        return self._groups.values()

    def apply(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        if value is None:
            self.forget(key.group)
        elif key.group not in self._groups or self._is_loading:
            self._groups[key.group] = group_from(key.group, value)
        # Else the group in memory has written it, and knows more.

    def on_loaded(self, now_ms: int) -> None:
        """Members have their whole session to come back."""
        self._is_loading = False
        for group in self._groups.values():
            for member in group.members.values():
                self._rebalance.restart_session(group, member, now_ms)
            if len(group.members) > self._settings.max_size:
                self._rebalance.prepare(group, "the group is over its maximum size", now_ms)

    def adopt(self, group: Group, now_ms: int) -> None:
        """Take over a group that was not classic before; its record is written, and it knows more than that says."""
        self._groups[group.group_id] = group
        for member in group.members.values():
            self._rebalance.restart_session(group, member, now_ms)
        self._rebalance.prepare(group, "its members are all of the classic protocol now", now_ms)

    def forget(self, group_id: str) -> None:
        """It has ended, or could not begin to exist after all."""
        group = self._groups.pop(group_id, None)
        if group is None:
            return
        group.state = ClassicGroupState.DEAD
        self._rebalance.dismiss(group, ErrorCode.REBALANCE_IN_PROGRESS)
        for member_id in (*group.members, *group.pending):
            self._timers.cancel(ClassicTimer(group_id, TimerKind.SESSION, member_id))
        self._timers.cancel(ClassicTimer(group_id, TimerKind.JOIN))
        self._timers.cancel(ClassicTimer(group_id, TimerKind.SYNC))

    def resign(self) -> None:
        """Send every waiting member to another coordinator, or to this one's successor."""
        for group in self._groups.values():
            self._rebalance.dismiss(group, ErrorCode.NOT_COORDINATOR)

    def join(
        self, token: Token[JoinGroupResponse], request: JoinGroupRequest, joiner: JoiningClient, now_ms: int
    ) -> None:
        """JoinGroup; the reply may have to wait until all members have joined."""
        reply = self._join(token, request, joiner, now_ms)
        if reply is not None:
            self._outbox.answer(token, reply)

    def sync(self, token: Token[SyncGroupResponse], request: SyncGroupRequest, now_ms: int) -> None:
        """SyncGroup; the reply may have to wait for the leader's assignment."""
        group = self._groups.get(request.group_id)
        refusal = _check_sync(group, request)
        if group is None or refusal:
            self._outbox.answer(token, refused_sync(refusal))
            return
        member = group.members[request.member_id]
        self._rebalance.note_sync(group, member)
        if group.state is ClassicGroupState.STABLE:
            self._rebalance.restart_session(group, member, now_ms)
            self._outbox.answer(token, synced(group, member))
            return
        self._rebalance.park_sync(member, token)
        if member.member_id == group.leader:
            assignments = {assignment.member_id: assignment.assignment for assignment in request.assignments}
            self._rebalance.assign(group, assignments, now_ms)

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        group = self._groups.get(request.group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        refusal = group.check_member(request.member_id, request.group_instance_id)
        if refusal:
            return refusal
        if request.generation_id != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        self._rebalance.restart_session(group, group.members[request.member_id], now_ms)
        return HEARTBEAT_ANSWERS[group.state]

    def leave(self, group_id: str, leaving: Sequence[MemberIdentity], now_ms: int) -> list[ErrorCode]:
        """LeaveGroup for one or many; one code for each, in their order."""
        if not group_id:
            return [ErrorCode.INVALID_GROUP_ID] * len(leaving)
        group = self._groups.get(group_id)
        if group is None:
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)
        count = len(group.members)
        codes = [self._leave(group, identity, now_ms) for identity in leaving]
        if len(group.members) < count:
            self._rebalance.prepare_or_go_on(group, f"{count - len(group.members)} members left", now_ms)
        else:
            self._rebalance.complete_join_if_all_joined(group, now_ms)
        return codes

    def check_commit(
        self, group: Group, request: OffsetCommitRequest, now_ms: int, *, is_transactional: bool = False
    ) -> ErrorCode:
        """Whether these offsets may be kept; a member that commits lives."""
        refusal = _check_commit(group, request, is_transactional=is_transactional)
        member = group.members.get(request.member_id)
        if member is not None and not refusal:
            self._rebalance.restart_session(group, member, now_ms)
        return refusal

    def make_simple(self, group_id: str) -> Group:
        """A consumer that assigns itself its partitions uses a group as a place to keep offsets."""
        group = self._groups[group_id] = Group(group_id)
        return group

    def expire(self, timer: ClassicTimer, now_ms: int) -> None:
        """Do what is due: end a session, go on without members that are late."""
        group = self._groups.get(timer.group_id)
        if group is None:
            return
        if timer.kind is TimerKind.JOIN:
            self._rebalance.expire_join(group, now_ms)
        elif timer.kind is TimerKind.SYNC:
            self._rebalance.expire_sync(group, now_ms)
        elif timer.member_id in group.pending:
            self._drop_pending(group, timer.member_id)
            self._rebalance.stop_waiting(group, now_ms)
        else:
            self._rebalance.expire_session(group, group.members[timer.member_id], now_ms)

    def _join(
        self, token: Token[JoinGroupResponse], request: JoinGroupRequest, joiner: JoiningClient, now_ms: int
    ) -> JoinGroupResponse | None:
        """The reply, if it can be given at once."""
        settings = self._settings
        if not request.group_id:
            return refused_join(request.member_id, ErrorCode.INVALID_GROUP_ID)
        if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
            return refused_join(request.member_id, ErrorCode.INVALID_SESSION_TIMEOUT)
        group = self._groups.get(request.group_id)
        if group is None:
            if request.member_id:
                return refused_join(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
            group = self._groups[request.group_id] = Group(request.group_id)
            self._outbox.write([metadata_record(group)])
        if not self._has_room(group, request.member_id):
            self._turn_away(group, request.member_id, now_ms)
            return refused_join("", ErrorCode.GROUP_MAX_SIZE_REACHED)
        if not group.supports(request.protocol_type, (protocol.name for protocol in request.protocols)):
            return refused_join(request.member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if request.member_id:
            return self._join_known(token, group, request, joiner, now_ms)
        if request.group_instance_id is not None:
            return self._join_static(token, group, request, joiner, now_ms)
        return self._join_dynamic(token, group, request, joiner, now_ms)

    def _join_dynamic(
        self,
        token: Token[JoinGroupResponse],
        group: Group,
        request: JoinGroupRequest,
        joiner: JoiningClient,
        now_ms: int,
    ) -> JoinGroupResponse | None:
        member_id = self._new_member_id(joiner.client_id)
        if not joiner.needs_member_id_first:
            self._rebalance.add(group, _new_member(member_id, request, joiner), request.protocol_type, token, now_ms)
            return None
        group.pending[member_id] = None
        session = ClassicTimer(group.group_id, TimerKind.SESSION, member_id)
        self._timers.set(session, now_ms + request.session_timeout_ms)
        return refused_join(member_id, ErrorCode.MEMBER_ID_REQUIRED)

    def _join_static(
        self,
        token: Token[JoinGroupResponse],
        group: Group,
        request: JoinGroupRequest,
        joiner: JoiningClient,
        now_ms: int,
    ) -> JoinGroupResponse | None:
        assert request.group_instance_id is not None
        member_id = self._new_member_id(request.group_instance_id)
        old = group.static_member(request.group_instance_id)
        if old is None:
            self._rebalance.add(group, _new_member(member_id, request, joiner), request.protocol_type, token, now_ms)
            return None
        leader = group.leader
        assert leader is not None
        new = self._replace_static(group, old, member_id, now_ms)
        group.update(new, request)
        if group.state is not ClassicGroupState.STABLE or group.choose_protocol() != group.protocol_name:
            # While the leader assigns, it assigns to the id that has just gone: it must begin anew.
            self._rebalance.park_join(new, token)
            self._rebalance.prepare_or_go_on(group, f"{member_id} took the place of {old.member_id}", now_ms)
            return None
        # Else a new coordinator would take the old id for the living one, and fence the new.
        self._outbox.write([metadata_record(group)])
        self._outbox.undo.append(lambda failed_ms: self._put_back(group, new, old, failed_ms))
        reply = joined(group, new)
        if joiner.can_skip_assignment:
            reply.skip_assignment = new.member_id == group.leader
        else:
            # A leader that cannot skip the assignment must not take itself for the leader, or it would assign anew.
            reply.leader, reply.members = leader, []
        return reply

    def _join_known(
        self,
        token: Token[JoinGroupResponse],
        group: Group,
        request: JoinGroupRequest,
        joiner: JoiningClient,
        now_ms: int,
    ) -> JoinGroupResponse | None:
        if request.member_id in group.pending and request.group_instance_id is None:
            member = _new_member(request.member_id, request, joiner)
            self._rebalance.add(group, member, request.protocol_type, token, now_ms)
            return None
        refusal = group.check_member(request.member_id, request.group_instance_id)
        if refusal:
            return refused_join(request.member_id, refusal)
        member = group.members[request.member_id]
        is_same = member.has_protocols(protocols_of(request.protocols))
        # A leader that joins again has seen something that changes its assignment; others may have missed an answer.
        leads_stable = group.state is ClassicGroupState.STABLE and member.member_id == group.leader
        if group.state is ClassicGroupState.PREPARING_REBALANCE or leads_stable or not is_same:
            self._rebalance.rejoin(group, member, request, token, now_ms)
            return None
        return joined(group, member)

    def _replace_static(self, group: Group, old: Member, member_id: str, now_ms: int) -> Member:
        """The instance has started again: a process that still speaks with the old id is fenced."""
        self._rebalance.answer_join(old, refused_join(old.member_id, ErrorCode.FENCED_INSTANCE_ID))
        self._rebalance.answer_sync(old, refused_sync(ErrorCode.FENCED_INSTANCE_ID))
        self._timers.cancel(ClassicTimer(group.group_id, TimerKind.SESSION, old.member_id))
        new = group.replace_static(old, member_id)
        self._rebalance.restart_session(group, new, now_ms)
        return new

    def _put_back(self, group: Group, new: Member, old: Member, now_ms: int) -> None:
        """The journal still has the old id, and so would a new coordinator."""
        self._timers.cancel(ClassicTimer(group.group_id, TimerKind.SESSION, new.member_id))
        group.exchange(new, old)
        self._rebalance.restart_session(group, old, now_ms)

    def _has_room(self, group: Group, member_id: str) -> bool:
        member = group.members.get(member_id)
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            # Members that join again in time stay; the last ones find no room when the limit was lowered.
            waiting = sum(other.join_token is not None for other in group.members.values())
            return (member is not None and member.join_token is not None) or waiting < self._settings.max_size
        return member is not None or len(group.members) < self._settings.max_size

    def _turn_away(self, group: Group, member_id: str, now_ms: int) -> None:
        self._drop_pending(group, member_id)
        if member_id in group.members:
            self._rebalance.remove(group, group.members[member_id])
        self._rebalance.complete_join_if_all_joined(group, now_ms)

    def _leave(self, group: Group, identity: MemberIdentity, now_ms: int) -> ErrorCode:
        member_id = identity.member_id
        if not member_id and identity.group_instance_id is not None:
            # An administrator knows a static member by its instance only.
            member = group.static_member(identity.group_instance_id)
            if member is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            self._rebalance.remove(group, member)
            return ErrorCode.NONE
        if member_id in group.pending:
            self._drop_pending(group, member_id)
            return ErrorCode.NONE
        refusal = group.check_member(member_id, identity.group_instance_id)
        if not refusal:
            self._rebalance.remove(group, group.members[member_id])
        return refusal

    def _drop_pending(self, group: Group, member_id: str) -> None:
        if member_id in group.pending:
            del group.pending[member_id]
            self._timers.cancel(ClassicTimer(group.group_id, TimerKind.SESSION, member_id))

    def _new_member_id(self, prefix: str) -> str:
        return f"{prefix[:MAX_PREFIX_LENGTH]}-{UUID(bytes=self._random_bytes(16), version=4)}"


def _new_member(member_id: str, request: JoinGroupRequest, joiner: JoiningClient) -> Member:
    return Member(
        member_id=member_id,
        instance_id=request.group_instance_id,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        protocols=protocols_of(request.protocols),
        client_id=joiner.client_id,
        client_host=joiner.client_host,
    )


def _check_sync(group: Group | None, request: SyncGroupRequest) -> ErrorCode:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    refusal = group.check_member(request.member_id, request.group_instance_id)
    if refusal:
        return refusal
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type not in (None, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name not in (None, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _check_commit(group: Group, request: OffsetCommitRequest, *, is_transactional: bool) -> ErrorCode:
    generation = request.generation_id_or_member_epoch
    if generation < 0 and group.state is ClassicGroupState.EMPTY:
        return ErrorCode.NONE
    if generation < 0 and not request.member_id and request.group_instance_id is None:
        # Producers before KIP-447 do not say for which member they commit: their transactional id fences them.
        return ErrorCode.NONE if is_transactional else ErrorCode.UNKNOWN_MEMBER_ID
    refusal = group.check_member(request.member_id, request.group_instance_id)
    if refusal:
        return refusal
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    # The member has its generation but not its partitions: what it commits it no longer owns.
    is_late = group.state is ClassicGroupState.COMPLETING_REBALANCE and not is_transactional
    return ErrorCode.REBALANCE_IN_PROGRESS if is_late else ErrorCode.NONE
