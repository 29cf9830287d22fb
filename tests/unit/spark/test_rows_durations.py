"""Lengths of time as people write them."""

from datetime import timedelta
from typing import Any

import pytest

from levada.spark.rows.durations import milliseconds, spoken
from levada.spark.rows.problems import RowsError


@pytest.mark.parametrize(
    ("written", "length_ms"),
    [
        ("10 minutes", 600_000),
        ("1 Hour", 3_600_000),
        ("90s", 90_000),
        ("1.5 days", 129_600_000),
        ("250ms", 250),
        ("2 weeks", 1_209_600_000),
        (2, 2_000),
        (0.5, 500),
        (timedelta(minutes=1), 60_000),
    ],
)
def test_a_length_of_time_is_understood(written: Any, length_ms: int) -> None:
    assert milliseconds(written, "it") == length_ms


@pytest.mark.parametrize("written", ["soon", "", "10", "-1 s", "0 seconds", 0, -3, True, "3 moons"])
def test_anything_else_is_refused(written: Any) -> None:
    with pytest.raises(RowsError, match=r"^it must be a length of time such as '10 minutes'"):
        milliseconds(written, "it")


def test_it_is_said_in_the_largest_unit_that_fits() -> None:
    assert [spoken(length) for length in (86_400_000, 5_400_000, 1_000, 1_500)] == [
        "1 day",
        "90 minutes",
        "1 second",
        "1500 milliseconds",
    ]
