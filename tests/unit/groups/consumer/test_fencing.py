"""Members that are late, behind or gone do not hold up the others."""

import pytest

from levada.coordination.decision import Record
from levada.groups.consumer import ConsumerGroupSettings, ConsumerGroupState, Interval
from levada.model.error_codes import ErrorCode
from tests.unit.groups.consumer.harness import REBALANCE_MS, Coordinator

SESSION_MS = 45_000


@pytest.fixture
def coordinator() -> Coordinator:
    coordinator = Coordinator(ConsumerGroupSettings(assignment_interval=Interval(0, 0, 15_000)))
    coordinator.topic("a", 4)
    return coordinator


def share(coordinator: Coordinator) -> None:
    """Two members, each with its half, at epoch 3."""
    coordinator.beat("m", 0, "a")
    coordinator.beat("n", 0, "a")
    coordinator.beat("m", 2, owned={"a": [0, 1]})
    coordinator.beat("n", 3)


def test_a_member_ahead_of_its_epoch_is_fenced(coordinator: Coordinator) -> None:
    share(coordinator)
    reply = coordinator.beat("m", 4)
    assert reply.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert reply.error_message == (
        "The consumer group member has a greater member epoch (4) than the one known by the group coordinator (3). "
        "The member must abandon all its partitions and rejoin."
    )


def test_a_member_that_missed_an_answer_may_come_with_its_previous_epoch(coordinator: Coordinator) -> None:
    share(coordinator)
    assert coordinator.beat("m", 2, owned={"a": [0]}).member_epoch == 3
    assert coordinator.beat("m", 2, owned={"a": [0, 1]}).member_epoch == 3


def test_a_previous_epoch_is_no_excuse_for_partitions_that_were_given_up(coordinator: Coordinator) -> None:
    share(coordinator)
    assert coordinator.beat("m", 2, owned={"a": [0, 2]}).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert coordinator.beat("m", 2).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert coordinator.beat("m", 1, owned={"a": [0]}).error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_that_leaves_frees_its_partitions_for_the_others(coordinator: Coordinator) -> None:
    share(coordinator)
    left = coordinator.beat("m", -1)
    assert (left.member_id, left.member_epoch, left.heartbeat_interval_ms) == ("m", -1, 0)
    assert coordinator.assigned(coordinator.beat("n", 3)) == {"a": [0, 1, 2, 3]}


def test_a_group_that_everybody_has_left_is_empty_and_stays(coordinator: Coordinator) -> None:
    share(coordinator)
    coordinator.beat("m", -1)
    coordinator.beat("n", -1)
    assert coordinator.group.state is ConsumerGroupState.EMPTY
    assert coordinator.group.epoch == 5
    assert coordinator.beat("m", 0, "a").member_epoch == 6


def test_a_member_that_is_not_heard_of_is_gone_after_its_session(coordinator: Coordinator) -> None:
    share(coordinator)
    coordinator.advance(SESSION_MS - 1)
    coordinator.beat("m", 3)
    coordinator.advance(1)
    assert list(coordinator.group.members) == ["m"]
    assert coordinator.beat("n", 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.assigned(coordinator.beat("m", 3)) == {"a": [0, 1, 2, 3]}


def test_a_member_that_does_not_give_up_partitions_in_time_is_fenced(coordinator: Coordinator) -> None:
    coordinator.beat("m", 0, "a")
    coordinator.beat("n", 0, "a")
    coordinator.beat("m", 2)
    for _ in range(REBALANCE_MS // 5_000):
        assert coordinator.beat("m", 2, owned={"a": [0, 1, 2, 3]}).error_code == ErrorCode.NONE
        coordinator.beat("n", 3)
        coordinator.advance(5_000)
    assert list(coordinator.group.members) == ["n"]
    assert coordinator.beat("m", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_has_given_up_in_time_is_not_fenced(coordinator: Coordinator) -> None:
    share(coordinator)
    for _ in range(2 * REBALANCE_MS // 5_000):
        coordinator.beat("m", 3)
        coordinator.beat("n", 3)
        coordinator.advance(5_000)
    assert list(coordinator.group.members) == ["m", "n"]


def test_a_fence_whose_records_are_not_written_is_tried_again(coordinator: Coordinator) -> None:
    share(coordinator)
    coordinator.now_ms += SESSION_MS
    lost: list[Record] = []
    while (timer := coordinator.timers.pop_due(coordinator.now_ms)) is not None:
        lost += coordinator.groups.expire(timer, coordinator.now_ms)
    assert lost
    assert list(coordinator.group.members) == ["m", "n"]
    coordinator.advance(500)
    assert not coordinator.group.members


def test_after_a_restart_members_have_a_whole_session_to_come_back(coordinator: Coordinator) -> None:
    share(coordinator)
    coordinator.advance(SESSION_MS - 1)
    coordinator.restart()
    coordinator.advance(SESSION_MS - 1)
    assert coordinator.beat("m", 3).error_code == ErrorCode.NONE
    coordinator.advance(1)
    assert list(coordinator.group.members) == ["m"]


def test_after_a_restart_a_member_has_its_whole_time_to_give_up_partitions(coordinator: Coordinator) -> None:
    coordinator.beat("m", 0, "a")
    coordinator.beat("n", 0, "a")
    coordinator.beat("m", 2)
    coordinator.advance(30_000)
    coordinator.restart()
    for _ in range(6):
        coordinator.advance(REBALANCE_MS // 6 - 1)
        assert coordinator.beat("m", 2).error_code == ErrorCode.NONE
    coordinator.advance(6)
    assert "m" not in coordinator.group.members
