"""Who may commit offsets, and when."""

import pytest

from levada.groups import ClassicGroupState, GroupSettings
from levada.model.error_codes import ErrorCode
from tests.unit.groups.harness import SESSION_MS, Coordinator


def test_a_member_commits_in_its_generation() -> None:
    coordinator = Coordinator()
    (member,) = coordinator.stable(1)
    assert coordinator.commit(member, 1, offset=5) == ErrorCode.NONE
    assert coordinator.committed() == 5


@pytest.mark.parametrize(
    ("member", "generation", "instance", "code"),
    [
        ("member", 0, None, ErrorCode.ILLEGAL_GENERATION),
        ("member", 2, None, ErrorCode.ILLEGAL_GENERATION),
        ("member", -1, None, ErrorCode.ILLEGAL_GENERATION),
        ("stranger", 1, None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("member", 1, "stranger", ErrorCode.UNKNOWN_MEMBER_ID),
        ("", 1, None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, "stranger", ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_commit_to_a_stable_group_is_refused(
    member: str, generation: int, instance: str | None, code: ErrorCode
) -> None:
    coordinator = Coordinator()
    (own,) = coordinator.stable(1)
    assert coordinator.commit(own if member == "member" else member, generation, instance=instance) == code
    assert coordinator.committed() is None


def test_a_commit_from_an_old_generation_is_refused() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.stable()
    coordinator.join(leader)
    coordinator.join(follower)
    for member in (follower, leader):
        coordinator.sync(member, 2)
    assert coordinator.is_in(ClassicGroupState.STABLE)
    assert coordinator.commit(follower, 1, offset=5) == ErrorCode.ILLEGAL_GENERATION
    assert coordinator.commit(follower, 2, offset=6) == ErrorCode.NONE
    assert coordinator.committed() == 6


def test_a_member_may_still_commit_while_a_rebalance_is_prepared_but_not_while_the_leader_assigns() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.stable()
    waiting = coordinator.join(leader)
    assert coordinator.commit(follower, 1) == ErrorCode.NONE
    coordinator.join(follower)
    assert coordinator.joined(waiting).generation_id == 2
    assert coordinator.commit(follower, 2) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_commit_keeps_a_session_alive() -> None:
    coordinator = Coordinator()
    (member,) = coordinator.stable(1)
    for _ in range(3):
        coordinator.advance(SESSION_MS - 1)
        assert coordinator.commit(member, 1) == ErrorCode.NONE
    assert coordinator.is_in(ClassicGroupState.STABLE)


def test_a_consumer_without_a_membership_commits_to_a_group_without_members() -> None:
    coordinator = Coordinator()
    assert coordinator.commit(offset=3) == ErrorCode.NONE
    assert coordinator.is_in(ClassicGroupState.EMPTY)
    assert coordinator.committed() == 3


def test_a_member_of_an_unknown_group_cannot_commit() -> None:
    coordinator = Coordinator()
    assert coordinator.commit("member", 1) == ErrorCode.GROUP_ID_NOT_FOUND
    assert coordinator.find() is None


def test_a_former_member_cannot_commit_to_the_empty_group() -> None:
    coordinator = Coordinator()
    (member,) = coordinator.stable(1)
    coordinator.leave(member)
    assert coordinator.commit(member, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.commit() == ErrorCode.NONE


def test_metadata_has_a_limit() -> None:
    coordinator = Coordinator(GroupSettings(max_offset_metadata_size=10))
    assert coordinator.commit(offset=1, metadata="x" * 10) == ErrorCode.NONE
    assert coordinator.commit(offset=2, metadata="x" * 11) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert coordinator.committed() == 1


def test_offsets_outlive_the_members() -> None:
    coordinator = Coordinator()
    (member,) = coordinator.stable(1)
    coordinator.commit(member, 1, offset=5)
    coordinator.leave(member)
    coordinator.advance(10_000_000)
    assert coordinator.is_in(ClassicGroupState.EMPTY)
    assert coordinator.committed() == 5
