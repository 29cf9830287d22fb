"""Members that keep their place through a restart (KIP-345)."""

from levada.groups import ClassicGroupState, JoiningClient
from levada.model.error_codes import ErrorCode
from levada.model.errors import UnknownServerError
from tests.unit.groups.harness import REBALANCE_MS, SESSION_MS, Coordinator

BEFORE_9 = JoiningClient("c", "/::1", 8)
SINCE_9 = JoiningClient("c", "/::1", 9)


def stable(coordinator: Coordinator) -> tuple[str, str]:
    """A stable group of the static members `a`, who leads, and `b`."""
    tokens = [coordinator.join(instance=instance) for instance in "ab"]
    coordinator.advance(6_000)
    a, b = (coordinator.joined(token).member_id for token in tokens)
    coordinator.sync(b, 1, instance="b")
    coordinator.sync(a, 1, {a: b"to a", b: b"to b"}, instance="a")
    assert coordinator.is_in(ClassicGroupState.STABLE)
    return a, b


def test_a_static_member_needs_no_id_first_and_is_named_after_its_instance() -> None:
    coordinator = Coordinator()
    token = coordinator.join(instance="a", joiner=SINCE_9)
    coordinator.advance(3_000)
    reply = coordinator.joined(token)
    assert reply.member_id.startswith("a-")
    assert [member.group_instance_id for member in reply.members] == ["a"]


def test_a_follower_that_returns_gets_a_new_id_and_its_old_assignment_without_a_rebalance() -> None:
    coordinator = Coordinator()
    a, b = stable(coordinator)
    reply = coordinator.joined(coordinator.join(instance="b", joiner=SINCE_9))
    assert reply.member_id != b
    assert (reply.generation_id, reply.leader, reply.members, reply.skip_assignment) == (1, a, [], False)
    assert coordinator.is_in(ClassicGroupState.STABLE)
    assert coordinator.synced(coordinator.sync(reply.member_id, 1, instance="b")).assignment == b"to b"
    assert coordinator.heartbeat(a, 1, instance="a") == ErrorCode.NONE


def test_a_leader_that_returns_skips_the_assignment() -> None:
    coordinator = Coordinator()
    a, _ = stable(coordinator)
    reply = coordinator.joined(coordinator.join(instance="a", joiner=SINCE_9))
    assert reply.leader == reply.member_id != a
    assert len(reply.members) == 2
    assert reply.skip_assignment
    assert coordinator.is_in(ClassicGroupState.STABLE)
    assert coordinator.synced(coordinator.sync(reply.member_id, 1, instance="a")).assignment == b"to a"


def test_a_leader_that_cannot_skip_the_assignment_is_not_told_that_it_leads() -> None:
    coordinator = Coordinator()
    a, _ = stable(coordinator)
    reply = coordinator.joined(coordinator.join(instance="a", joiner=BEFORE_9))
    assert (reply.leader, reply.members, reply.skip_assignment) == (a, [], False)
    assert coordinator.group.leader == reply.member_id


def test_a_member_that_returns_and_cannot_be_written_down_leaves_its_place_to_the_old_incarnation() -> None:
    coordinator = Coordinator()
    a, b = stable(coordinator)
    coordinator.journal.refusal = UnknownServerError("too large")
    for instance in "ab":
        token = coordinator.join(instance=instance, protocols={"range": b"much", "sticky": b""}, joiner=SINCE_9)
        assert isinstance(coordinator.replies[token], UnknownServerError)
    coordinator.journal.refusal = None
    assert set(coordinator.group.members) == {a, b}
    assert (coordinator.group.state, coordinator.group.leader) == (ClassicGroupState.STABLE, a)
    assert not coordinator.group.supports("consumer", ["sticky"])
    assert coordinator.synced(coordinator.sync(a, 1, instance="a")).assignment == b"to a"
    coordinator.advance(SESSION_MS - 1)
    assert coordinator.heartbeat(b, 1, instance="b") == ErrorCode.NONE
    coordinator.load()
    assert coordinator.heartbeat(b, 1, instance="b") == ErrorCode.NONE


def test_the_old_incarnation_is_fenced_wherever_it_speaks() -> None:
    coordinator = Coordinator()
    _, b = stable(coordinator)
    coordinator.join(instance="b")
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert coordinator.heartbeat(b, 1, instance="b") == fenced
    assert coordinator.error(coordinator.sync(b, 1, instance="b")) == fenced
    assert coordinator.error(coordinator.join(b, instance="b")) == fenced
    assert coordinator.commit(b, 1, instance="b") == fenced
    assert coordinator.leave((b, "b")) == [fenced]
    # Without its instance it is merely unknown.
    assert coordinator.heartbeat(b, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_incarnation_that_waits_is_fenced_when_the_next_one_comes() -> None:
    coordinator = Coordinator()
    old = coordinator.join(instance="a")
    new = coordinator.join(instance="a")
    assert coordinator.error(old) == ErrorCode.FENCED_INSTANCE_ID
    coordinator.advance(3_000)
    assert coordinator.joined(new).generation_id == 1
    assert len(coordinator.group.members) == 1


def test_an_incarnation_that_waits_for_its_assignment_is_fenced_and_all_begin_anew() -> None:
    coordinator = Coordinator()
    tokens = [coordinator.join(instance=instance) for instance in "ab"]
    coordinator.advance(6_000)
    b = coordinator.joined(tokens[1]).member_id
    waiting = coordinator.sync(b, 1, instance="b")
    new = coordinator.join(instance="b")
    assert coordinator.error(waiting) == ErrorCode.FENCED_INSTANCE_ID
    assert coordinator.is_parked(new)
    assert coordinator.is_in(ClassicGroupState.PREPARING_REBALANCE)


def test_a_member_that_returns_with_another_protocol_starts_a_rebalance() -> None:
    coordinator = Coordinator()
    both = {"range": b"", "sticky": b""}
    tokens = [coordinator.join(instance=instance, protocols=both) for instance in "ab"]
    coordinator.advance(6_000)
    a, b = (coordinator.joined(token).member_id for token in tokens)
    coordinator.sync(a, 1, instance="a")
    coordinator.sync(b, 1, instance="b")
    token = coordinator.join(instance="b", protocols={"sticky": b""})
    assert coordinator.is_parked(token)
    assert coordinator.joined(coordinator.join(a, instance="a", protocols=both)).protocol_name == "sticky"


def test_a_static_member_that_does_not_join_keeps_its_place_until_its_session_ends() -> None:
    coordinator = Coordinator()
    long_session_ms = 2 * REBALANCE_MS
    tokens = [coordinator.join(instance=instance, session_ms=long_session_ms) for instance in "ab"]
    coordinator.advance(6_000)
    a, b = (coordinator.joined(token).member_id for token in tokens)
    coordinator.sync(b, 1, instance="b")
    coordinator.sync(a, 1, instance="a")
    token = coordinator.join(a, instance="a", session_ms=long_session_ms)
    coordinator.advance(REBALANCE_MS)
    reply = coordinator.joined(token)
    assert [member.group_instance_id for member in reply.members] == ["a", "b"]


def test_static_members_of_whom_none_joins_are_waited_for_until_their_sessions_end() -> None:
    coordinator = Coordinator()
    long_session_ms = 3 * REBALANCE_MS
    dynamic, *static = [
        coordinator.join(instance=instance, session_ms=long_session_ms) for instance in (None, "a", "b")
    ]
    coordinator.advance(6_000)
    for token in (*static, dynamic):
        coordinator.sync(coordinator.joined(token).member_id, 1)
    assert coordinator.is_in(ClassicGroupState.STABLE)
    coordinator.leave(coordinator.joined(dynamic).member_id)
    coordinator.advance(REBALANCE_MS + 1)
    assert coordinator.is_in(ClassicGroupState.PREPARING_REBALANCE)
    assert len(coordinator.group.members) == 2
    coordinator.advance(long_session_ms)
    assert coordinator.is_in(ClassicGroupState.EMPTY)


def test_a_static_member_that_allows_no_time_for_a_rebalance_does_not_keep_the_coordinator_busy() -> None:
    coordinator = Coordinator()
    tokens = [coordinator.join(), coordinator.join(instance="a", rebalance_ms=0)]
    coordinator.advance(6_000)
    dynamic, static = (coordinator.joined(token).member_id for token in tokens)
    coordinator.sync(static, 1)
    coordinator.sync(dynamic, 1)
    coordinator.leave(dynamic)
    coordinator.advance(0)
    assert coordinator.machine.deadline_ms() == coordinator.now_ms + 1_000
    assert list(coordinator.group.members) == [static]


def test_a_new_incarnation_that_waits_misses_no_heartbeat() -> None:
    coordinator = Coordinator()
    a, _ = stable(coordinator)
    waiting = coordinator.join(a, instance="a", protocols={"range": b"new"})
    newer = coordinator.join(instance="a")
    assert coordinator.error(waiting) == ErrorCode.FENCED_INSTANCE_ID
    b = coordinator.group.static_member("b")
    assert b is not None
    for _ in range(3):
        coordinator.advance(SESSION_MS - 1)
        coordinator.heartbeat(b.member_id, 1, instance="b")
    assert coordinator.is_parked(newer)


def test_the_session_of_the_new_incarnation_counts() -> None:
    coordinator = Coordinator()
    _, b = stable(coordinator)
    coordinator.advance(SESSION_MS - 1)
    coordinator.join(instance="a")
    new = coordinator.joined(coordinator.join(instance="b")).member_id
    coordinator.advance(SESSION_MS - 1)
    assert coordinator.is_in(ClassicGroupState.STABLE)
    assert b not in coordinator.group.members
    assert new in coordinator.group.members
    coordinator.advance(1)
    assert coordinator.is_in(ClassicGroupState.EMPTY)


def test_an_administrator_removes_a_static_member_by_its_instance() -> None:
    coordinator = Coordinator()
    a, b = stable(coordinator)
    assert coordinator.leave(("", "b"), ("", "b")) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert list(coordinator.group.members) == [a]
    assert coordinator.heartbeat(b, 1, instance="b") == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_leaves_with_its_id_and_its_instance() -> None:
    coordinator = Coordinator()
    _, b = stable(coordinator)
    assert coordinator.leave((b, "a")) == [ErrorCode.FENCED_INSTANCE_ID]
    assert coordinator.leave((b, "b")) == [ErrorCode.NONE]
    assert coordinator.group.static_member("b") is None
