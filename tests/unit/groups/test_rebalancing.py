"""From one generation to the next, and what happens when a member dies on the way."""

import pytest

from levada.groups import ClassicGroupState, GroupSettings
from levada.groups.group import NEXT_STATES, Group
from levada.model.error_codes import ErrorCode
from levada.model.errors import UnknownServerError
from tests.unit.groups.harness import REBALANCE_MS, SESSION_MS, Coordinator


@pytest.mark.parametrize("before", ClassicGroupState)
@pytest.mark.parametrize("after", ClassicGroupState)
def test_a_group_changes_state_only_as_the_table_says(before: ClassicGroupState, after: ClassicGroupState) -> None:
    group = Group("g")
    group.state = before
    if after in NEXT_STATES[before]:
        group.move_to(after, 0)
        assert group.state is after
    else:
        with pytest.raises(AssertionError):
            group.move_to(after, 0)


def test_followers_wait_for_the_assignment_of_the_leader() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.prepared()
    waiting = coordinator.sync(follower, 1)
    assert coordinator.is_parked(waiting)
    answered = coordinator.sync(leader, 1, {leader: b"a", follower: b"b", "stranger": b"c"})
    assert coordinator.is_in(ClassicGroupState.STABLE)
    assert coordinator.synced(waiting).assignment == b"b"
    assert coordinator.synced(answered).assignment == b"a"
    assert coordinator.synced(answered).protocol_type == "consumer"
    assert coordinator.synced(answered).protocol_name == "range"


def test_an_assignment_that_cannot_be_written_is_nobodys_and_all_join_again() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.prepared()
    waiting = coordinator.sync(follower, 1)
    coordinator.journal.refusal = UnknownServerError("too large")
    refused = coordinator.sync(leader, 1, {leader: b"much", follower: b"more"})
    assert [type(coordinator.replies[token]) for token in (refused, waiting)] == [UnknownServerError] * 2
    assert coordinator.is_in(ClassicGroupState.PREPARING_REBALANCE)
    assert coordinator.counts.classic_rebalances == 0
    assert coordinator.error(coordinator.sync(leader, 1)) == ErrorCode.REBALANCE_IN_PROGRESS
    coordinator.journal.refusal = None
    tokens = [coordinator.join(member) for member in (leader, follower)]
    assert [coordinator.joined(token).generation_id for token in tokens] == [2, 2]
    coordinator.sync(leader, 2, {follower: b"less"})
    assert coordinator.synced(coordinator.sync(follower, 2)).assignment == b"less"
    assert coordinator.counts.classic_rebalances == 1


def test_a_late_sync_gets_its_assignment_at_once() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.prepared()
    coordinator.sync(leader, 1, {leader: b"a", follower: b"b"})
    assert coordinator.synced(coordinator.sync(follower, 1)).assignment == b"b"
    # And again, should the answer have been lost.
    assert coordinator.synced(coordinator.sync(follower, 1)).assignment == b"b"


def test_a_late_sync_begins_a_session() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.prepared()
    coordinator.sync(leader, 1, {leader: b"a", follower: b"b"})
    coordinator.advance(SESSION_MS - 1)
    coordinator.sync(follower, 1)
    coordinator.heartbeat(leader, 1)
    coordinator.advance(SESSION_MS - 1)
    assert coordinator.heartbeat(follower, 1) == ErrorCode.NONE


def test_a_member_that_the_leader_forgot_gets_an_empty_assignment() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.prepared()
    coordinator.sync(leader, 1, {leader: b"a"})
    reply = coordinator.synced(coordinator.sync(follower, 1))
    assert (reply.error_code, reply.assignment) == (ErrorCode.NONE, b"")


def test_sync_is_refused() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.prepared()

    def refusal(member_id: str, generation: int = 1, **fields: str) -> ErrorCode:
        return coordinator.error(coordinator.sync(member_id, generation, **fields))  # type: ignore[arg-type]

    assert refusal(leader, group="") == ErrorCode.INVALID_GROUP_ID
    assert refusal(leader, group="unknown") == ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal("stranger") == ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal(leader, instance="stranger") == ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal(leader, 0) == ErrorCode.ILLEGAL_GENERATION
    assert refusal(leader, 2) == ErrorCode.ILLEGAL_GENERATION
    assert refusal(leader, protocol_type="connect") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert refusal(leader, protocol_type="consumer", protocol_name="sticky") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert coordinator.is_in(ClassicGroupState.COMPLETING_REBALANCE)
    coordinator.leave(follower)
    assert refusal(leader) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_new_member_makes_all_join_again_and_the_leader_stays() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.stable()
    new = coordinator.join()
    assert coordinator.is_in(ClassicGroupState.PREPARING_REBALANCE)
    assert coordinator.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    again = coordinator.join(follower)
    assert coordinator.is_parked(new)
    assert coordinator.is_parked(again)
    # No delay this time: all whom the group knows have joined.
    token = coordinator.join(leader)
    assert coordinator.joined(token).leader == leader
    assert {coordinator.joined(one).generation_id for one in (new, again, token)} == {2}


def test_a_follower_that_asks_again_unchanged_disturbs_no_member() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.stable()
    reply = coordinator.joined(coordinator.join(follower))
    assert (reply.generation_id, reply.leader, reply.members) == (1, leader, [])
    assert coordinator.is_in(ClassicGroupState.STABLE)


@pytest.mark.parametrize("who", ["leader", "changed follower"])
def test_a_leader_that_joins_again_or_a_follower_with_new_metadata_starts_a_rebalance(who: str) -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.stable()
    token = coordinator.join(leader) if who == "leader" else coordinator.join(follower, protocols={"range": b"new"})
    assert coordinator.is_parked(token)
    assert coordinator.is_in(ClassicGroupState.PREPARING_REBALANCE)


def test_a_lost_join_answer_is_given_again_while_the_leader_assigns() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.prepared()
    assert len(coordinator.joined(coordinator.join(leader)).members) == 2
    assert coordinator.joined(coordinator.join(follower)).members == []
    assert coordinator.is_in(ClassicGroupState.COMPLETING_REBALANCE)


def test_new_metadata_while_the_leader_assigns_makes_all_join_again() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.prepared()
    waiting = coordinator.sync(follower, 1)
    coordinator.join(leader, protocols={"range": b"new"})
    assert coordinator.error(waiting) == ErrorCode.REBALANCE_IN_PROGRESS
    assert coordinator.synced(waiting).protocol_name is None
    assert coordinator.is_in(ClassicGroupState.PREPARING_REBALANCE)


def test_members_that_do_not_join_in_time_are_dropped_and_another_leads() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.stable(session_ms=100_000)
    token = coordinator.join(follower, protocols={"range": b"new"}, session_ms=100_000)
    coordinator.advance(REBALANCE_MS - 1)
    assert coordinator.is_parked(token)
    coordinator.advance(1)
    reply = coordinator.joined(token)
    assert (reply.leader, len(reply.members)) == (follower, 1)
    assert coordinator.heartbeat(leader, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_longest_rebalance_timeout_counts() -> None:
    coordinator = Coordinator()
    (leader,) = coordinator.stable(1, rebalance_ms=20_000, session_ms=200_000)
    token = coordinator.join(rebalance_ms=90_000)
    coordinator.advance(89_999)
    assert coordinator.is_parked(token)
    coordinator.advance(1)
    assert coordinator.joined(token).leader != leader


def test_a_member_that_dies_while_a_rebalance_is_prepared_is_waited_for_no_longer_than_its_session() -> None:
    coordinator = Coordinator()
    leader, dying = coordinator.stable()
    token = coordinator.join(leader)
    coordinator.advance(SESSION_MS - 1)
    assert coordinator.is_parked(token)
    coordinator.advance(1)
    assert coordinator.joined(token).generation_id == 2
    assert list(coordinator.group.members) == [leader]
    assert coordinator.error(coordinator.join(dying)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_keep_a_member_alive_while_a_rebalance_is_prepared() -> None:
    coordinator = Coordinator()
    leader, slow = coordinator.stable()
    token = coordinator.join(leader)
    for _ in range(5):
        coordinator.advance(SESSION_MS - 1)
        assert coordinator.heartbeat(slow, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert coordinator.joined(coordinator.join(slow)).generation_id == 2
    assert coordinator.joined(token).generation_id == 2


def test_a_leader_that_dies_before_it_assigns_is_followed_by_another() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.prepared()
    coordinator.advance(5_000)
    coordinator.heartbeat(follower, 1)
    waiting = coordinator.sync(follower, 1)
    coordinator.advance(5_000)
    assert coordinator.error(waiting) == ErrorCode.REBALANCE_IN_PROGRESS
    assert leader not in coordinator.group.members
    reply = coordinator.joined(coordinator.join(follower))
    assert (reply.generation_id, reply.leader) == (2, follower)


def test_a_member_that_waits_for_the_assignment_misses_no_heartbeat() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.prepared()
    waiting = coordinator.sync(follower, 1)
    for _ in range(5):
        coordinator.advance(SESSION_MS - 1)
        coordinator.heartbeat(leader, 1)
    assert coordinator.is_parked(waiting)
    coordinator.sync(leader, 1, {follower: b"b"})
    assert coordinator.synced(waiting).assignment == b"b"
    # Its session begins with the answer.
    coordinator.advance(SESSION_MS - 1)
    assert follower in coordinator.group.members
    coordinator.heartbeat(leader, 1)
    coordinator.advance(1)
    assert follower not in coordinator.group.members


def test_members_that_do_not_sync_in_time_are_dropped() -> None:
    coordinator = Coordinator()
    leader, lazy = coordinator.prepared(session_ms=100_000)
    coordinator.sync(leader, 1)
    assert coordinator.is_in(ClassicGroupState.STABLE)
    coordinator.advance(REBALANCE_MS - 3_001)
    assert lazy in coordinator.group.members
    coordinator.advance(3_001)
    assert coordinator.is_in(ClassicGroupState.PREPARING_REBALANCE)
    assert list(coordinator.group.members) == [leader]


def test_a_group_whose_leader_does_not_sync_in_time_begins_anew() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.prepared(session_ms=100_000)
    waiting = coordinator.sync(follower, 1)
    coordinator.advance(REBALANCE_MS)
    assert coordinator.error(waiting) == ErrorCode.REBALANCE_IN_PROGRESS
    assert list(coordinator.group.members) == [follower]
    assert coordinator.error(coordinator.sync(leader, 1)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_when_all_have_synced_nothing_is_left_to_time_out() -> None:
    coordinator = Coordinator()
    members = coordinator.stable(session_ms=100_000)
    coordinator.advance(REBALANCE_MS + 1)
    assert coordinator.is_in(ClassicGroupState.STABLE)
    assert list(coordinator.group.members) == members


def test_a_new_member_that_waits_in_vain_is_told_to_begin_anew_after_five_minutes() -> None:
    coordinator = Coordinator()
    (leader,) = coordinator.stable(1, rebalance_ms=1_000_000)
    token = coordinator.join()
    for _ in range(60):
        coordinator.advance(5_000)
        coordinator.heartbeat(leader, 1)
    assert coordinator.error(token) == ErrorCode.UNKNOWN_MEMBER_ID
    assert list(coordinator.group.members) == [leader]


def test_a_group_whose_members_all_die_is_empty_and_can_begin_again() -> None:
    coordinator = Coordinator()
    members = coordinator.stable()
    coordinator.advance(100_000)
    assert coordinator.is_in(ClassicGroupState.EMPTY)
    assert coordinator.group.generation == 2
    assert coordinator.group.leader is None
    assert [coordinator.heartbeat(member, 1) for member in members] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    token = coordinator.join(protocol_type="connect", protocols={"other": b""})
    coordinator.advance(3_000)
    assert coordinator.joined(token).generation_id == 3
    assert coordinator.joined(token).protocol_type == "connect"


def test_a_join_that_is_asked_again_answers_the_older_request_too() -> None:
    coordinator = Coordinator()
    leader, _ = coordinator.stable()
    older = coordinator.join(leader)
    newer = coordinator.join(leader)
    assert coordinator.error(older) == ErrorCode.REBALANCE_IN_PROGRESS
    assert coordinator.is_parked(newer)


def test_a_sync_that_is_asked_again_answers_the_older_request_too() -> None:
    coordinator = Coordinator()
    _, follower = coordinator.prepared()
    older = coordinator.sync(follower, 1)
    newer = coordinator.sync(follower, 1)
    assert coordinator.error(older) == ErrorCode.REBALANCE_IN_PROGRESS
    assert coordinator.is_parked(newer)


def test_a_coordinator_that_resigns_answers_all_who_wait() -> None:
    coordinator = Coordinator(GroupSettings(initial_rebalance_delay_ms=3_000))
    _, follower = coordinator.prepared()
    syncing = coordinator.sync(follower, 1)
    joining = coordinator.join(group="other")
    coordinator.resign()
    assert coordinator.error(syncing) == ErrorCode.NOT_COORDINATOR
    assert coordinator.error(joining) == ErrorCode.NOT_COORDINATOR
