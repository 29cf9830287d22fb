"""Which brokers get the replicas of new partitions."""

from collections import Counter

import pytest

from levada.controller.placement import place
from levada.metadata.image import BrokerState
from levada.model.errors import InvalidReplicationFactor


def brokers(*ids: int, racks: str = "") -> list[BrokerState]:
    """Brokers in this order, each in the rack of its letter."""
    return [
        BrokerState(broker, 0, b"", rack=racks[number] if racks else None, is_fenced=False)
        for number, broker in enumerate(ids)
    ]


def test_followers_rotate_by_another_shift_every_round() -> None:
    """Example 24 of docs/scenarios.md."""
    placed = place(brokers(1, 0, 2), 16, 3, start=0, shift=0)
    round_of_six = [[1, 0, 2], [0, 2, 1], [2, 1, 0], [1, 2, 0], [0, 1, 2], [2, 0, 1]]
    assert placed == [*round_of_six, *round_of_six, *round_of_six][:16]
    assert sorted(Counter(replicas[0] for replicas in placed).values()) == [5, 5, 6]


def test_start_and_shift_turn_the_first_round() -> None:
    assert place(brokers(0, 1, 2), 3, 3, start=1, shift=0) == [[1, 2, 0], [2, 0, 1], [0, 1, 2]]
    assert place(brokers(0, 1, 2), 3, 3, start=0, shift=1) == [[0, 2, 1], [1, 0, 2], [2, 1, 0]]


def test_added_partitions_go_on_where_the_others_end() -> None:
    all_at_once = place(brokers(0, 1, 2), 7, 2, start=1, shift=0)
    assert place(brokers(0, 1, 2), 2, 2, start=1, shift=0, first=1) == all_at_once[1:3]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("racks", ["", "aaaabbcc", "abcabcab"])
def test_load_is_even_and_no_broker_has_a_partition_twice(size: int, racks: str) -> None:
    for factor in range(1, size + 1):
        placed = place(brokers(*range(size), racks=racks), 8 * size, factor, start=0, shift=0)
        assert all(len(set(replicas)) == factor for replicas in placed)
        assert set(Counter(replicas[0] for replicas in placed).values()) == {8}


def test_replicas_are_spread_over_racks() -> None:
    racks = {0: "a", 1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}
    given = brokers(*racks, racks="".join(racks.values()))
    for replicas in place(given, 24, 3, start=0, shift=0):
        assert {racks[one] for one in replicas} == {"a", "b", "c"}
    for replicas in place(given, 24, 4, start=0, shift=0):
        assert max(Counter(racks[one] for one in replicas).values()) == 2
    for replicas in place(given, 24, 2, start=3, shift=1):
        assert len({racks[one] for one in replicas}) == 2


def test_neighbours_in_turn_are_in_different_racks() -> None:
    leaders = [replicas[0] for replicas in place(brokers(0, 1, 2, 3, racks="aabb"), 4, 1, start=0, shift=0)]
    assert leaders == [0, 2, 1, 3]


def test_brokers_without_a_rack_are_each_their_own() -> None:
    assert place(brokers(0, 1, 2), 1, 3, start=0, shift=0) == [[0, 1, 2]]


@pytest.mark.parametrize(
    ("given", "factor", "message"),
    [
        ([], 1, "Unable to replicate the partition 1 time(s): All brokers are currently fenced."),
        (
            [1, 2],
            3,
            (
                "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached "
                "because only 2 broker(s) are registered"
            ),
        ),
    ],
)
def test_too_few_brokers_are_refused(given: list[int], factor: int, message: str) -> None:
    with pytest.raises(InvalidReplicationFactor) as caught:
        place(brokers(*given), 1, factor, start=0, shift=0)
    assert str(caught.value).startswith(message)
