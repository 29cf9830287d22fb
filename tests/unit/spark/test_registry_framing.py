"""The prefix of values: ids and message indexes, as Confluent's documentation writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levada.spark.rows.registry.framing import (
    NotFramed,
    message_indexes,
    message_indexes_of,
    prefix_of,
    schema_id_of,
)


@given(st.integers(0, 2**31 - 1))
def test_an_id_comes_back_from_its_prefix(schema_id: int) -> None:
    assert schema_id_of(prefix_of(schema_id) + b"rest") == schema_id


def test_a_prefix_is_a_zero_and_four_bytes_with_the_highest_first() -> None:
    assert prefix_of(0x01020304) == b"\x00\x01\x02\x03\x04"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"", "it has 0 bytes"),
        (b"\x00\x00\x00\x01", "it has 4 bytes"),
        (b"\x01\x00\x00\x00\x01", "its first byte is 1, not 0"),
        (b'{"id": 1}', "its first byte is 123, not 0"),
        (b"\x00\xff\xff\xff\xff", "4294967295 is none"),
    ],
)
def test_a_value_without_a_prefix_is_named(value: bytes, said: str) -> None:
    with pytest.raises(NotFramed) as raised:
        schema_id_of(value)
    assert str(raised.value).startswith("the value has no schema id before it: ")
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("indexes", "written"),
    [
        ((0,), b"\x00"),
        ((1,), b"\x02\x02"),
        ((1, 0), b"\x04\x02\x00"),
        ((0, 0), b"\x04\x00\x00"),
        ((70,), b"\x02\x8c\x01"),
    ],
)
def test_message_indexes_are_zigzag_numbers_and_the_first_message_a_single_zero(
    indexes: tuple[int, ...], written: bytes
) -> None:
    assert message_indexes(indexes) == written
    assert message_indexes_of(prefix_of(7) + written + b"value") == (indexes, 5 + len(written))


def test_the_first_message_may_be_written_at_full_length() -> None:
    assert message_indexes_of(prefix_of(7) + b"\x02\x00value") == ((0,), 7)


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=100))
def test_any_message_indexes_come_back(indexes: list[int]) -> None:
    written = message_indexes(indexes)
    assert message_indexes_of(prefix_of(1) + written) == (tuple(indexes), 5 + len(written))


@pytest.mark.parametrize(
    "written",
    [b"", b"\x04\x02", b"\x80", b"\xff\xff\xff\xff\xff\xff", b"\x01", b"\x02\x01", b"\xfe\xff\x03" + bytes(80)],
    ids=["nothing", "half of them", "half a number", "too long", "-1 levels", "index -1", "32767 levels"],
)
def test_broken_message_indexes_are_refused(written: bytes) -> None:
    with pytest.raises(NotFramed, match="message index"):
        message_indexes_of(prefix_of(1) + written)
