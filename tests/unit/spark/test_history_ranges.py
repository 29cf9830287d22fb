"""Ranges as they are given, and what can be replayed of them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from levada.client.types import TopicPartition
from levada.spark.history.ranges import OffsetRange, RangeError, TopicRange, check_there, given_offsets, moment_ms

PLACE = TopicPartition("orders", 0)


def test_partitions_may_be_numbers_or_text() -> None:
    assert given_offsets("orders", {"0": [5, 90]}) == given_offsets("orders", {0: (5, 90)})


@pytest.mark.parametrize("given", [{}, {0: (5,)}, {"x": (1, 2)}, {0: (9, 5)}, {0: (-1, 5)}])
def test_what_is_no_range_is_refused(given: dict[int, tuple[int, ...]]) -> None:
    with pytest.raises(RangeError):
        given_offsets("orders", given)


def test_a_range_is_written_as_the_data_source_takes_it() -> None:
    wanted = given_offsets("orders", {1: (0, 0), 0: (5, 90)})
    assert wanted.assign == '{"orders": [0, 1]}'
    assert wanted.starting_offsets == '{"orders": {"0": 5, "1": 0}}'
    assert wanted.ending_offsets == '{"orders": {"0": 90, "1": 0}}'
    assert (wanted.size, str(wanted)) == (85, "orders-0 5 to 89")


@pytest.mark.parametrize(
    ("given", "expected_ms"),
    [
        ("1970-01-01T00:00:01Z", 1_000),
        ("1970-01-01T00:00:01", 1_000),
        ("1970-01-01T01:00:01+01:00", 1_000),
        (datetime(1970, 1, 1, 0, 0, 1), 1_000),
        (datetime(1970, 1, 1, 1, 0, 1, tzinfo=timezone(timedelta(hours=1))), 1_000),
        (datetime(1970, 1, 1, 0, 0, 1, 1, tzinfo=UTC), 1_001),
        (datetime(2026, 11, 15, 12, 0, 0, 999_000, tzinfo=UTC), 1_794_744_000_999),
    ],
)
def test_a_moment_is_a_number_of_milliseconds(given: datetime | str, expected_ms: int) -> None:
    assert moment_ms(given) == expected_ms


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(RangeError, match="'soon' is no time: a range is"):
        moment_ms("soon")


@pytest.mark.parametrize(
    ("bounds", "problem"),
    [((2, 9), "begins at offset 3"), ((5, 11), "ends at offset 10, so there is no 10 to replay")],
)
def test_a_range_must_be_there_as_a_whole(bounds: tuple[int, int], problem: str) -> None:
    with pytest.raises(RangeError, match=problem):
        check_there(TopicRange("orders", {0: OffsetRange(*bounds)}), {PLACE: 3}, {PLACE: 10})


def test_all_that_is_there_can_be_replayed() -> None:
    check_there(TopicRange("orders", {0: OffsetRange(3, 10)}), {PLACE: 3}, {PLACE: 10})
    with pytest.raises(RangeError, match="there is no partition orders-1"):
        check_there(TopicRange("orders", {1: OffsetRange(0, 1)}), {PLACE: 3}, {PLACE: 10})
