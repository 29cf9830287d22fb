"""Corners of the assignors that the golden cases do not have."""

import pytest

from levada.groups.assignors import ASSIGNORS, AssignmentError, MemberSpec

A, B = b"a" * 16, b"b" * 16


@pytest.mark.parametrize("name", ASSIGNORS)
def test_a_group_without_members_has_no_assignment(name: str) -> None:
    assert ASSIGNORS[name]({}, {A: 3}) == {}


@pytest.mark.parametrize("name", ASSIGNORS)
@pytest.mark.parametrize("others", [[A, B], [A]], ids=["equal", "unequal"])
def test_a_topic_that_is_not_known_is_named_in_the_error(name: str, others: list[bytes]) -> None:
    members = {"m1": MemberSpec(topics=[A, B], current={}), "m2": MemberSpec(topics=others, current={})}
    with pytest.raises(AssignmentError, match="YmJiYmJiYmJiYmJiYmJiYg"):
        ASSIGNORS[name](members, {A: 3})


@pytest.mark.parametrize("name", ASSIGNORS)
def test_a_topic_without_partitions_is_assigned_to_no_member(name: str) -> None:
    assert ASSIGNORS[name]({"m1": MemberSpec(topics=[A], current={})}, {A: 0}) == {"m1": {}}


@pytest.mark.parametrize("name", ASSIGNORS)
def test_the_input_is_left_as_it_was(name: str) -> None:
    current = {A: [0, 1, 2, 3]}
    members = {"m1": MemberSpec(topics=[A], current=current), "m2": MemberSpec(topics=[A], current={})}
    assignment = ASSIGNORS[name](members, {A: 4})
    assignment["m1"][A].append(9)
    assert current == {A: [0, 1, 2, 3]}


def test_range_orders_static_members_first_and_names_as_java_does() -> None:
    """A name beyond the basic plane sorts by its surrogates, before U+FFFD."""
    members = {
        "\ufffd": MemberSpec(topics=[A], current={}),
        "\U0001f600": MemberSpec(topics=[A], current={}),
        "z": MemberSpec(topics=[A], current={}, instance_id="2"),
        "y": MemberSpec(topics=[A], current={}, instance_id="3"),
    }
    assert ASSIGNORS["range"](members, {A: 4}) == {
        "z": {A: [0]},
        "y": {A: [1]},
        "\U0001f600": {A: [2]},
        "\ufffd": {A: [3]},
    }


def test_a_member_that_no_longer_subscribes_loses_its_partitions_and_no_more() -> None:
    members = {
        "m1": MemberSpec(topics=[A], current={A: [0, 1], B: [0]}),
        "m2": MemberSpec(topics=[A, B], current={A: [2], B: [1]}),
    }
    assert ASSIGNORS["uniform"](members, {A: 3, B: 2}) == {"m1": {A: [0, 1]}, "m2": {A: [2], B: [0, 1]}}
