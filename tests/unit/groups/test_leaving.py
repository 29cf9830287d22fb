"""Heartbeats, and the ways out of a group."""

from levada.groups import ClassicGroupState
from levada.model.error_codes import ErrorCode
from tests.unit.groups.harness import NEW_CLIENT, SESSION_MS, Coordinator


def test_heartbeats_are_refused() -> None:
    coordinator = Coordinator()
    (member,) = coordinator.stable(1)
    assert coordinator.heartbeat(member, 1, group="") == ErrorCode.INVALID_GROUP_ID
    assert coordinator.heartbeat(member, 1, group="unknown") == ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.heartbeat("stranger", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.heartbeat(member, 0) == ErrorCode.ILLEGAL_GENERATION
    assert coordinator.heartbeat(member, 2) == ErrorCode.ILLEGAL_GENERATION
    assert coordinator.heartbeat(member, 1, instance="stranger") == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_refused_heartbeat_keeps_no_member_alive() -> None:
    coordinator = Coordinator()
    (member,) = coordinator.stable(1)
    coordinator.advance(SESSION_MS - 1)
    coordinator.heartbeat(member, 0)
    coordinator.advance(1)
    assert coordinator.is_in(ClassicGroupState.EMPTY)


def test_heartbeats_keep_a_session_alive_in_every_phase() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.prepared()
    coordinator.advance(SESSION_MS - 1)
    assert [coordinator.heartbeat(member, 1) for member in (leader, follower)] == [ErrorCode.NONE] * 2
    coordinator.sync(follower, 1)
    coordinator.sync(leader, 1)
    for _ in range(3):
        coordinator.advance(SESSION_MS - 1)
        assert [coordinator.heartbeat(member, 1) for member in (leader, follower)] == [ErrorCode.NONE] * 2


def test_a_session_that_ends_makes_the_others_join_again() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.stable()
    coordinator.advance(5_000)
    coordinator.heartbeat(follower, 1)
    coordinator.advance(5_000)
    assert coordinator.is_in(ClassicGroupState.PREPARING_REBALANCE)
    reply = coordinator.joined(coordinator.join(follower))
    assert (reply.leader, reply.generation_id) == (follower, 2)
    assert leader not in coordinator.group.members


def test_a_member_that_leaves_is_not_waited_for() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.stable()
    assert coordinator.leave(leader) == [ErrorCode.NONE]
    assert coordinator.heartbeat(follower, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert coordinator.joined(coordinator.join(follower)).generation_id == 2


def test_a_member_that_leaves_while_a_rebalance_is_prepared_completes_it() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.stable()
    token = coordinator.join(leader)
    coordinator.leave(follower)
    assert coordinator.joined(token).generation_id == 2


def test_a_member_that_leaves_during_the_first_rebalance_does_not_shorten_it() -> None:
    coordinator = Coordinator()
    staying = coordinator.join()
    leaving = coordinator.join()
    other = list(coordinator.group.members)[1]
    assert coordinator.leave(other) == [ErrorCode.NONE]
    assert coordinator.error(leaving) == ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.is_parked(staying)
    coordinator.advance(6_000)
    assert len(coordinator.joined(staying).members) == 1


def test_a_member_that_leaves_while_it_waits_for_its_assignment_is_answered() -> None:
    coordinator = Coordinator()
    _, follower = coordinator.prepared()
    waiting = coordinator.sync(follower, 1)
    coordinator.leave(follower)
    assert coordinator.error(waiting) == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_last_to_leave_leaves_an_empty_group() -> None:
    coordinator = Coordinator()
    members = coordinator.stable()
    assert coordinator.leave(*members) == [ErrorCode.NONE] * 2
    assert coordinator.is_in(ClassicGroupState.EMPTY)


def test_leaving_is_refused_for_each_on_its_own() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.stable()
    assert coordinator.leave(leader, group="") == [ErrorCode.INVALID_GROUP_ID]
    assert coordinator.leave(leader, "x", group="unknown") == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    assert coordinator.leave("stranger", "", ("", "unknown")) == [ErrorCode.UNKNOWN_MEMBER_ID] * 3
    assert coordinator.is_in(ClassicGroupState.STABLE)
    assert coordinator.leave("stranger", follower) == [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    assert list(coordinator.group.members) == [leader]


def test_a_member_cannot_leave_twice() -> None:
    coordinator = Coordinator()
    leader, _ = coordinator.stable()
    assert coordinator.leave(leader, leader) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_pending_member_can_leave_and_is_waited_for_no_longer() -> None:
    coordinator = Coordinator()
    (leader,) = coordinator.stable(1)
    pending = coordinator.joined(coordinator.join(joiner=NEW_CLIENT)).member_id
    assert coordinator.leave(pending) == [ErrorCode.NONE]
    assert coordinator.is_in(ClassicGroupState.STABLE)
    pending = coordinator.joined(coordinator.join(joiner=NEW_CLIENT)).member_id
    token = coordinator.join(leader)
    assert coordinator.is_parked(token)
    assert coordinator.leave(pending) == [ErrorCode.NONE]
    assert coordinator.joined(token).generation_id == 2
