"""Stamps as bytes, and the tree that the stamps of one record tell."""

import pytest

from levada.spark.history.hops import Coordinates, Hop, SourceRange, decode, encode, hops_of, ways

ONE = SourceRange("orders", 1, 7, 7, 1, (7,), 1_000, 1_000)
MANY = SourceRange("points", 0, 3, 90, 40, (88, 90), 1_000, 2_000)


@pytest.mark.parametrize("hop", [Hop("points", 5, (ONE,)), Hop("Summe ü", 5, (MANY, ONE), "run-1"), Hop("none", 5, ())])
def test_a_stamp_is_read_as_it_was_written(hop: Hop) -> None:
    assert decode(encode(hop)) == hop


def test_a_stamp_is_compact() -> None:
    assert encode(Hop("points", 5, (ONE,))) == (
        b'{"hop":"points","at":5,"from":[{"topic":"orders","partition":1,"offset":7,"timestamp":1000}]}'
    )


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b"7", b'{"hop":"x"}', b'{"hop":"x","at":1,"from":[{}]}', b"\xff"])
def test_what_others_wrote_under_the_name_is_passed_over(value: bytes) -> None:
    with pytest.raises(ValueError):
        decode(value)
    own = encode(Hop("points", 5, (ONE,)))
    found = hops_of([("levada-trace", value), ("levada-trace", own), ("levada-trace", None), ("other", own)])
    assert [hop.name for hop in found] == ["points"]


def test_an_aggregate_knows_how_many_it_has_not_listed() -> None:
    assert (ONE.unlisted, MANY.unlisted) == (0, 38)


def test_each_source_of_a_join_has_its_own_way() -> None:
    """The stamps of the ways stand before the join's, source by source."""
    clicked = Hop("clicked", 1, (ONE,))
    seen = Hop("seen", 2, (SourceRange("clicks", 0, 4, 4, 1, (4,), hops=1),))
    paid = Hop("paid", 1, (ONE,))
    left, right = SourceRange("seen", 0, 1, 1, 1, (1,), hops=2), SourceRange("paid", 0, 2, 2, 1, (2,), hops=1)
    stamps = [clicked, seen, paid, Hop("alarm", 3, (left, right))]
    assert ways(stamps) == [(left, [clicked, seen]), (right, [paid])]
    assert ways([clicked, seen]) == [(seen.sources[0], [clicked])]
    assert ways([]) == []


def test_coordinates_are_text_and_back_whatever_the_topic_is_called() -> None:
    place = Coordinates("a-b-1", 2, 30)
    assert str(place) == "a-b-1-2-30"
    assert Coordinates.parse("a-b-1-2-30") == place
