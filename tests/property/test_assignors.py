"""Every partition has one owner that wants it, loads are even, and nothing moves in vain, whatever the group."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levada.groups.assignors import ASSIGNORS, Assignment, MemberSpec

Members = dict[str, MemberSpec]
Counts = dict[bytes, int]

TOPICS = [bytes(15) + bytes([number]) for number in range(6)]


@st.composite
def groups(draw: st.DrawFn, *, equal: bool = False) -> tuple[Members, Counts]:
    """Members that own partitions of topics they may not subscribe to any longer; no partition has two owners."""
    counts = {topic: draw(st.integers(1, 9)) for topic in TOPICS[: draw(st.integers(1, len(TOPICS)))]}
    subscriptions = st.lists(st.sampled_from(list(counts)), unique=True, min_size=1 if equal else 0)
    shared = draw(subscriptions) if equal else None
    places = draw(st.integers(1, 8))
    current: list[dict[bytes, list[int]]] = [{} for _ in range(places)]
    for topic, count in counts.items():
        owners = draw(st.lists(st.integers(-1, places - 1), min_size=count, max_size=count))
        for partition, owner in enumerate(owners):
            if owner >= 0:
                current[owner].setdefault(topic, []).append(partition)
    members = {
        f"m{place}": MemberSpec(
            topics=draw(subscriptions) if shared is None else shared,
            current=owned,
            instance_id=draw(st.none() | st.just(f"i{places - place}")),
        )
        for place, owned in enumerate(current)
    }
    return members, counts


def size(topics: Any) -> int:
    return sum(map(len, topics.values()))


def kept(member: MemberSpec, topics: dict[bytes, list[int]]) -> int:
    return sum(len(set(partitions) & set(member.current.get(topic, ()))) for topic, partitions in topics.items())


def with_current(members: Members, assignment: Assignment) -> Members:
    return {member_id: replace(member, current=assignment[member_id]) for member_id, member in members.items()}


@pytest.mark.parametrize("name", ASSIGNORS)
@given(group=groups() | groups(equal=True))
@settings(max_examples=200, deadline=None)
def test_every_partition_goes_to_one_subscriber(name: str, group: tuple[Members, Counts]) -> None:
    members, counts = group
    assignment = ASSIGNORS[name](members, counts)
    assigned = [
        (topic, partition)
        for topics in assignment.values()
        for topic, partitions in topics.items()
        for partition in partitions
    ]
    subscribed = {topic for member in members.values() for topic in member.topics}
    assert sorted(assigned) == [(topic, n) for topic in sorted(subscribed) for n in range(counts[topic])]
    for member_id, topics in assignment.items():
        assert set(topics) <= set(members[member_id].topics)
        assert all(partitions == sorted(partitions) != [] for partitions in topics.values())


@given(group=groups(equal=True))
@settings(max_examples=200, deadline=None)
def test_equal_subscribers_differ_by_one_partition_at_most_and_lose_only_what_is_too_much(
    group: tuple[Members, Counts],
) -> None:
    members, counts = group
    assignment = ASSIGNORS["uniform"](members, counts)
    sizes = [size(topics) for topics in assignment.values()]
    assert max(sizes) - min(sizes) <= 1
    for member_id, member in members.items():
        had = sum(len(partitions) for topic, partitions in member.current.items() if topic in member.topics)
        assert kept(member, assignment[member_id]) == min(had, size(assignment[member_id]))


@given(group=groups())
@settings(max_examples=300, deadline=None)
def test_no_partition_could_move_to_a_subscriber_with_two_fewer(group: tuple[Members, Counts]) -> None:
    members, counts = group
    assignment = ASSIGNORS["uniform"](members, counts)
    for topics in assignment.values():
        for topic in topics:
            takers = [size(assignment[other]) for other, member in members.items() if topic in member.topics]
            assert size(topics) - min(takers) <= 1


@pytest.mark.parametrize("name", ASSIGNORS)
@given(group=groups() | groups(equal=True))
@settings(max_examples=200, deadline=None)
def test_an_assignment_stays_when_nothing_has_changed(name: str, group: tuple[Members, Counts]) -> None:
    members, counts = group
    assignment = ASSIGNORS[name](members, counts)
    if assignment:
        assert ASSIGNORS[name](with_current(members, assignment), counts) == assignment


@given(group=groups(equal=True), data=st.data())
@settings(max_examples=200, deadline=None)
def test_when_a_member_leaves_the_others_keep_all_they_had(group: tuple[Members, Counts], data: st.DataObject) -> None:
    members, counts = group
    settled = with_current(members, ASSIGNORS["uniform"](members, counts))
    left = data.draw(st.sampled_from(list(settled)))
    rest = {member_id: member for member_id, member in settled.items() if member_id != left}
    for member_id, topics in ASSIGNORS["uniform"](rest, counts).items():
        assert kept(rest[member_id], topics) == size(rest[member_id].current)


@given(group=groups(equal=True))
@settings(max_examples=200, deadline=None)
def test_a_member_that_joins_takes_only_its_own_share(group: tuple[Members, Counts]) -> None:
    members, counts = group
    settled = with_current(members, ASSIGNORS["uniform"](members, counts))
    settled["new"] = MemberSpec(topics=next(iter(members.values())).topics, current={})
    assignment = ASSIGNORS["uniform"](settled, counts)
    lost = sum(size(member.current) - kept(member, assignment[name]) for name, member in settled.items())
    assert lost == size(assignment["new"])
