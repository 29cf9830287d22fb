"""A static member keeps its partitions while it is away for a while (KIP-345)."""

import pytest

from levada.groups.consumer import ConsumerGroupSettings, Interval
from levada.model.error_codes import ErrorCode
from tests.unit.groups.consumer.harness import Coordinator


@pytest.fixture
def coordinator() -> Coordinator:
    coordinator = Coordinator(ConsumerGroupSettings(assignment_interval=Interval(0, 0, 15_000)))
    coordinator.topic("a", 4)
    coordinator.beat("m", 0, "a", instance_id="one")
    coordinator.beat("n", 0, "a", instance_id="two")
    coordinator.beat("m", 2, owned={"a": [0, 1]}, instance_id="one")
    coordinator.beat("n", 3, instance_id="two")
    return coordinator


def test_a_name_that_is_in_use_cannot_be_taken(coordinator: Coordinator) -> None:
    reply = coordinator.beat("thief", 0, "a", instance_id="one")
    assert reply.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert reply.error_message == (
        "Static member thief with instance id one cannot join the group because the instance id is owned by m member."
    )


def test_who_uses_anothers_name_is_fenced(coordinator: Coordinator) -> None:
    for epoch in (3, -1, -2):
        reply = coordinator.beat("thief", epoch, instance_id="one")
        assert reply.error_code == ErrorCode.FENCED_INSTANCE_ID
        assert reply.error_message == "Static member thief with instance id one was fenced by member m."


def test_a_name_that_no_member_has_is_unknown(coordinator: Coordinator) -> None:
    for epoch in (3, -1, -2):
        reply = coordinator.beat("m", epoch, instance_id="three")
        assert (reply.error_code, reply.error_message) == (
            ErrorCode.UNKNOWN_MEMBER_ID,
            "Instance id three is unknown.",
        )


def test_a_member_that_leaves_for_now_keeps_its_partitions(coordinator: Coordinator) -> None:
    left = coordinator.beat("m", -2, instance_id="one")
    assert (left.member_id, left.member_epoch) == ("m", -2)
    assert coordinator.group.epoch == 3
    assert coordinator.beat("n", 3, instance_id="two").assignment is None
    assert coordinator.beat("m", 3, instance_id="one").error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_its_successor_has_them_at_once_and_without_a_rebalance(coordinator: Coordinator) -> None:
    coordinator.beat("m", -2, instance_id="one")
    back = coordinator.beat("m2", 0, "a", instance_id="one")
    assert (back.member_epoch, coordinator.assigned(back)) == (3, {"a": [0, 1]})
    assert coordinator.group.epoch == 3
    assert list(coordinator.group.members) == ["n", "m2"]
    assert coordinator.beat("m", 3, instance_id="one").error_code == ErrorCode.FENCED_INSTANCE_ID


def test_it_may_come_back_under_the_id_it_had(coordinator: Coordinator) -> None:
    coordinator.beat("m", -2, instance_id="one")
    back = coordinator.beat("m", 0, "a", instance_id="one")
    assert (back.member_epoch, coordinator.assigned(back)) == (3, {"a": [0, 1]})
    for _ in range(20):
        coordinator.advance(5_000)
        coordinator.beat("n", 3, instance_id="two")
        assert coordinator.beat("m", 3, instance_id="one").error_code == ErrorCode.NONE


def test_a_successor_that_wants_something_else_begins_a_rebalance(coordinator: Coordinator) -> None:
    coordinator.topic("b", 1)
    coordinator.beat("m", -2, instance_id="one")
    back = coordinator.beat("m2", 0, "a", "b", instance_id="one")
    assert back.member_epoch == 4
    assert coordinator.assigned(back) == {"a": [0, 1], "b": [0]}


def test_one_that_does_not_come_back_is_gone_with_its_session(coordinator: Coordinator) -> None:
    coordinator.beat("m", -2, instance_id="one")
    for _ in range(9):
        coordinator.advance(4_999)
        assert coordinator.beat("n", 3, instance_id="two").assignment is None
    coordinator.advance(9)
    assert list(coordinator.group.members) == ["n"]
    assert coordinator.assigned(coordinator.beat("n", 3, instance_id="two")) == {"a": [0, 1, 2, 3]}


def test_one_that_leaves_for_good_frees_its_name(coordinator: Coordinator) -> None:
    coordinator.beat("m", -1, instance_id="one")
    assert coordinator.beat("m2", 0, "a", instance_id="one").error_code == ErrorCode.NONE
