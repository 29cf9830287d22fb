"""Which members are let into a group, and how long the first rebalance waits for more."""

import pytest

from levada.groups import ClassicGroupState, GroupSettings, JoiningClient
from levada.groups.member import protocols_of
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.join_group import JoinGroupRequestProtocol
from tests.unit.groups.harness import NEW_CLIENT, OLD_CLIENT, Coordinator


def test_an_old_client_joins_at_once_and_becomes_the_leader() -> None:
    coordinator = Coordinator()
    token = coordinator.join()
    assert coordinator.is_in(ClassicGroupState.PREPARING_REBALANCE)
    assert coordinator.is_parked(token)
    coordinator.advance(3_000)
    reply = coordinator.joined(token)
    assert reply.error_code == ErrorCode.NONE
    assert reply.generation_id == 1
    assert reply.protocol_type == "consumer"
    assert reply.protocol_name == "range"
    assert reply.leader == reply.member_id
    assert [(member.member_id, member.metadata) for member in reply.members] == [(reply.member_id, b"topics")]
    assert not reply.skip_assignment
    assert coordinator.is_in(ClassicGroupState.COMPLETING_REBALANCE)


def test_only_the_leader_hears_of_the_others() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.join(), coordinator.join()
    coordinator.advance(6_000)
    assert len(coordinator.joined(leader).members) == 2
    assert coordinator.joined(follower).members == []
    assert coordinator.joined(follower).leader == coordinator.joined(leader).member_id


def test_a_newer_client_gets_its_member_id_first() -> None:
    coordinator = Coordinator()
    first = coordinator.joined(coordinator.join(joiner=NEW_CLIENT))
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert first.generation_id == -1
    assert first.member_id.startswith("new-")
    assert coordinator.is_in(ClassicGroupState.EMPTY)
    token = coordinator.join(first.member_id, joiner=NEW_CLIENT)
    assert coordinator.is_parked(token)
    coordinator.advance(3_000)
    assert coordinator.joined(token).member_id == first.member_id
    assert coordinator.group.pending == {}


def test_member_ids_are_the_client_id_and_a_uuid() -> None:
    coordinator = Coordinator()
    ids = [coordinator.joined(coordinator.join(joiner=NEW_CLIENT)).member_id for _ in range(2)]
    assert ids == ["new-00000000-0000-4000-8000-000000000001", "new-00000000-0000-4000-8000-000000000002"]


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": -1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": {}}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_new_group_refuses(request_: dict[str, object], code: ErrorCode) -> None:
    coordinator = Coordinator()
    token = coordinator.join(**request_)  # type: ignore[arg-type]
    assert coordinator.error(token) == code
    assert coordinator.joined(token).member_id == request_.get("member_id", "")


@pytest.mark.parametrize("session_ms", [6_000, 1_800_000])
def test_the_bounds_of_the_session_timeout_are_allowed(session_ms: int) -> None:
    coordinator = Coordinator()
    assert coordinator.is_parked(coordinator.join(session_ms=session_ms))


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": {"sticky": b""}}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": {}}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"instance": "unknown", "member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_stable_group_refuses_and_stays_stable(request_: dict[str, object], code: ErrorCode) -> None:
    coordinator = Coordinator()
    coordinator.stable()
    assert coordinator.error(coordinator.join(**request_)) == code  # type: ignore[arg-type]
    assert coordinator.is_in(ClassicGroupState.STABLE)


def test_the_protocol_is_chosen_by_vote_among_those_that_all_know() -> None:
    coordinator = Coordinator()
    tokens = [
        coordinator.join(protocols={"only": b"", "range": b"1", "sticky": b"1"}),
        coordinator.join(protocols={"sticky": b"2", "range": b"2"}),
        coordinator.join(protocols={"sticky": b"3", "range": b"3"}),
    ]
    coordinator.advance(60_000)
    reply = coordinator.joined(tokens[0])
    assert reply.protocol_name == "sticky"
    assert [member.metadata for member in reply.members] == [b"1", b"2", b"3"]


def test_a_protocol_named_twice_counts_once() -> None:
    twice = [JoinGroupRequestProtocol(name="range", metadata=metadata) for metadata in (b"first", b"second")]
    assert protocols_of(twice) == {"range": b"first"}


def test_the_first_rebalance_waits_again_for_every_round_that_brought_members() -> None:
    coordinator = Coordinator()
    first = coordinator.join()
    coordinator.advance(2_000)
    second = coordinator.join()
    coordinator.advance(1_000)
    assert coordinator.is_parked(first)
    coordinator.advance(2_999)
    assert coordinator.is_parked(first)
    coordinator.advance(1)
    assert coordinator.joined(first).generation_id == 1
    assert coordinator.joined(second).generation_id == 1


def test_the_first_rebalance_waits_no_longer_than_the_rebalance_timeout() -> None:
    coordinator = Coordinator()
    first = coordinator.join(rebalance_ms=7_000)
    for _ in range(6):
        coordinator.advance(1_000)
        coordinator.join(rebalance_ms=7_000)
    assert coordinator.is_parked(first)
    coordinator.advance(999)
    assert coordinator.is_parked(first)
    coordinator.advance(1)
    assert len(coordinator.joined(first).members) == 7


def test_without_a_delay_the_first_rebalance_ends_at_the_next_tick() -> None:
    coordinator = Coordinator(GroupSettings(initial_rebalance_delay_ms=0))
    token = coordinator.join()
    coordinator.advance(0)
    assert coordinator.joined(token).generation_id == 1


def test_a_pending_member_is_waited_for_and_given_up_after_its_session() -> None:
    coordinator = Coordinator()
    (leader,) = coordinator.stable(1)
    pending = coordinator.joined(coordinator.join(joiner=NEW_CLIENT)).member_id
    assert coordinator.is_in(ClassicGroupState.STABLE)
    token = coordinator.join(leader)
    assert coordinator.is_parked(token)
    coordinator.advance(9_999)
    assert coordinator.is_parked(token)
    coordinator.advance(1)
    assert coordinator.joined(token).generation_id == 2
    assert coordinator.error(coordinator.join(pending, joiner=NEW_CLIENT)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_member_that_joins_late_is_let_in() -> None:
    coordinator = Coordinator()
    (leader,) = coordinator.stable(1)
    pending = coordinator.joined(coordinator.join(joiner=NEW_CLIENT)).member_id
    tokens = [coordinator.join(leader), coordinator.join(pending)]
    assert [coordinator.joined(token).generation_id for token in tokens] == [2, 2]
    assert coordinator.joined(tokens[0]).leader == leader


def test_a_pending_member_that_turns_out_static_is_refused() -> None:
    coordinator = Coordinator()
    pending = coordinator.joined(coordinator.join(joiner=NEW_CLIENT)).member_id
    assert coordinator.error(coordinator.join(pending, instance="i")) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("joiner", [OLD_CLIENT, NEW_CLIENT])
def test_a_group_at_its_maximum_lets_no_member_in(joiner: JoiningClient) -> None:
    coordinator = Coordinator(GroupSettings(max_size=2))
    members = coordinator.stable(2)
    token = coordinator.join(joiner=joiner)
    assert coordinator.error(token) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert coordinator.joined(token).member_id == ""
    assert coordinator.is_in(ClassicGroupState.STABLE)
    assert coordinator.is_parked(coordinator.join(members[0]))


def test_the_maximum_counts_those_who_wait_while_a_rebalance_is_prepared() -> None:
    coordinator = Coordinator(GroupSettings(max_size=2))
    first, second = coordinator.stable(2)
    waiting = coordinator.join(first)
    new = coordinator.join()
    assert coordinator.is_parked(new)
    # The one who comes last finds its place taken.
    assert coordinator.error(coordinator.join(second)) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert coordinator.joined(waiting).generation_id == 2
    assert coordinator.joined(new).generation_id == 2
    assert second not in coordinator.group.members


def test_a_pending_member_that_finds_no_room_holds_no_rebalance_up() -> None:
    coordinator = Coordinator(GroupSettings(max_size=1))
    pending = coordinator.joined(coordinator.join(joiner=NEW_CLIENT)).member_id
    (leader,) = coordinator.stable(1)
    assert coordinator.error(coordinator.join(pending)) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert coordinator.group.pending == {}
    assert coordinator.joined(coordinator.join(leader)).generation_id == 2


def test_groups_do_not_see_each_other() -> None:
    coordinator = Coordinator()
    (member,) = coordinator.stable(1)
    coordinator.join(group="other", protocol_type="connect", protocols={"x": b""})
    assert coordinator.heartbeat(member, 1) == ErrorCode.NONE
    assert coordinator.heartbeat(member, 1, group="other") == ErrorCode.UNKNOWN_MEMBER_ID


def test_one_who_waits_already_may_ask_again_when_the_group_is_full() -> None:
    coordinator = Coordinator(GroupSettings(max_size=2))
    older = coordinator.join()
    coordinator.join()
    newer = coordinator.join(next(iter(coordinator.group.members)))
    assert coordinator.error(older) == ErrorCode.REBALANCE_IN_PROGRESS
    coordinator.advance(6_000)
    assert len(coordinator.joined(newer).members) == 2


def test_a_group_that_has_become_empty_is_forgotten_at_the_next_check() -> None:
    coordinator = Coordinator()
    (member,) = coordinator.stable(1)
    for _ in range(100):
        coordinator.advance(9_000)
        coordinator.heartbeat(member, 1)
    coordinator.leave(member)
    assert coordinator.is_in(ClassicGroupState.EMPTY)
    coordinator.advance(600_000)
    assert coordinator.find() is None
    coordinator.load()
    assert coordinator.find() is None


def test_a_group_with_a_pending_member_is_not_forgotten_before_it_has_gone() -> None:
    coordinator = Coordinator()
    pending = coordinator.joined(coordinator.join(joiner=NEW_CLIENT, session_ms=1_800_000)).member_id
    group = coordinator.group
    coordinator.advance(1_000_000)
    assert coordinator.is_in(ClassicGroupState.EMPTY)
    coordinator.leave(pending)
    coordinator.advance(600_000)
    assert coordinator.find() is None
    assert group.state is ClassicGroupState.DEAD
