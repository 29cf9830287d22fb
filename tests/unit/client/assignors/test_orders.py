"""The orders of Java's strings and hash tables, which Apache's assignments show."""

from levada.client.assignors.movements import Movements
from levada.client.assignors.order import (
    computed_hash_order,
    first_in_hash_order,
    hash_order,
    table_size,
    text_order,
)


def test_names_come_by_the_slots_of_a_java_hash_map() -> None:
    """The hashes of c1, c2, c3 end in 14, 15 and 0 of 16."""
    assert hash_order(["c1", "c2", "c3", "c1"]) == ["c3", "c1", "c2"]


def test_names_in_one_slot_come_as_they_were_put_or_the_other_way_round_if_computed() -> None:
    assert hash_order(["AaBB", "BBAa", "AaAa"]) == ["AaBB", "BBAa", "AaAa"]
    assert computed_hash_order(["AaBB", "BBAa", "AaAa"]) == ["AaAa", "BBAa", "AaBB"]


def test_a_table_doubles_when_three_quarters_are_full() -> None:
    assert [table_size(entries) for entries in (0, 12, 13, 24, 25)] == [16, 16, 32, 32, 64]


def test_a_table_that_computes_grows_when_it_is_next_asked() -> None:
    names = [f"t{number}" for number in range(13)]
    assert computed_hash_order(names) != computed_hash_order([*names, names[-1]])
    assert computed_hash_order([*names, names[-1]]) == hash_order(reversed(names))


def test_a_character_beyond_the_first_plane_sorts_by_its_surrogates() -> None:
    assert sorted(["\uffff", "\U0001f600"], key=text_order) == ["\U0001f600", "\uffff"]


def test_partitions_come_by_the_slots_of_a_java_hash_set() -> None:
    """Partition 0 of "a" hashes to 1058, and each next one to 31 more."""
    assert first_in_hash_order([("a", 0), ("a", 1), ("a", 2), ("a", 3)]) == ("a", 2)
    assert first_in_hash_order([("a", 1), ("a", 18)]) == ("a", 18)
    assert first_in_hash_order([("a", number) for number in (1, 18, *range(3, 14))]) == ("a", 1)


def test_what_came_from_a_member_goes_back_there_first() -> None:
    movements = Movements()
    assert movements.to_return(("t", 1), 2, 1) is None
    movements.record(("t", 0), 1, 2)
    assert movements.to_return(("t", 1), 2, 1) == ("t", 0)
    assert movements.to_return(("u", 1), 2, 1) is None
    movements.record(("t", 0), 2, 3)
    assert movements.to_return(("t", 1), 2, 1) is None
    assert movements.to_return(("t", 1), 3, 1) == ("t", 0)
    movements.record(("t", 0), 3, 1)
    assert movements.to_return(("t", 1), 3, 1) is None


def test_a_partition_that_moved_counts_as_its_first_owners() -> None:
    movements = Movements()
    movements.record(("t", 0), 1, 2)
    movements.record(("t", 1), 3, 1)
    assert movements.to_return(("t", 0), 2, 3) == ("t", 1)
