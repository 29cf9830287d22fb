"""Numbers as clients write them."""

import pytest

from levada.model.numbers import parse_int32


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("-1", -1), ("+7", 7), ("007", 7), ("2147483647", 2**31 - 1)])
def test_a_whole_number_is_read(text: str, number: int) -> None:
    assert parse_int32(text) == number


@pytest.mark.parametrize(
    "text", ["", "-", "1.0", " 1", "1_000", "0x1", "\u00b2", "2147483648", "-2147483649", "9" * 5_000]
)
def test_what_is_none_is_not_and_raises_nothing(text: str) -> None:
    assert parse_int32(text) is None
