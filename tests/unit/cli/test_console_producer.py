"""Lines to records: ends of lines, fields, and what is wrong with them."""

import io

import pytest

from levada.cli.console_producer.line_reader import LineReader, read_lines
from levada.cli.kit.refusals import WrongUsage


class Trickle(io.RawIOBase):
    """Gives what was put in, piece by piece."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)

    def read1(self, size: int) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""


def lines_of(*pieces: bytes) -> list[bytes]:
    return [line for lines in read_lines(Trickle(*pieces)) for line in lines]  # type: ignore[arg-type]


TEXT = b"one\ntwo\r\n\rthree\n\nlast"


@pytest.mark.parametrize("size", range(1, len(TEXT) + 1))
def test_lines_are_the_same_however_they_arrive(size: int) -> None:
    pieces = [TEXT[start : start + size] for start in range(0, len(TEXT), size)]
    assert lines_of(*pieces) == [b"one", b"two", b"", b"three", b"", b"last"]


def test_a_line_goes_out_as_soon_as_it_ends() -> None:
    arriving = read_lines(Trickle(b"one\r", b"\ntwo\n"))  # type: ignore[arg-type]
    assert next(arriving) == [b"one"]
    assert next(arriving) == [b"two"]


def test_bytes_that_are_no_text_stay_as_they_are() -> None:
    columns = LineReader({"parse.key": "true"}).parse([b"\xff\tv\x00\xfe\x85"])
    assert (columns.keys, columns.values) == ([b"\xff"], [b"v\x00\xfe\x85"])


def test_headers_key_and_value_stand_in_this_order() -> None:
    columns = LineReader({"parse.key": "true", "parse.headers": "true"}).parse([b"a:1,b:\tkey\tvalue\tand more"])
    assert columns.headers == [[("a", b"1"), ("b", b"")]]
    assert (columns.keys, columns.values) == ([b"key"], [b"value\tand more"])


def test_headers_are_split_by_a_regular_expression() -> None:
    columns = LineReader({"parse.headers": "true", "headers.separator": "[;|]"}).parse([b"a:1;b:2|c:3\tv"])
    assert columns.headers == [[("a", b"1"), ("b", b"2"), ("c", b"3")]]


def test_separators_at_the_end_of_headers_mean_nothing() -> None:
    columns = LineReader({"parse.headers": "true"}).parse([b"a:1,,\tv", b",\tv"])
    assert columns.headers == [[("a", b"1")], []]


def test_what_comes_before_a_bad_line_is_there() -> None:
    columns = LineReader({"parse.key": "true"}).parse([b"a\t1", b"bad", b"c\t3"])
    assert (columns.keys, columns.values) == ([b"a"], [b"1"])
    assert columns.fault is not None
    assert "line number 2: 'bad'" in columns.fault


def test_lines_are_counted_over_all_that_was_read() -> None:
    reader = LineReader({"parse.key": "true"})
    reader.parse([b"a\t1", b"b\t2"])
    assert "line number 3" in (reader.parse([b"bad"]).fault or "")


def test_a_key_may_be_missing_where_errors_are_ignored() -> None:
    columns = LineReader({"parse.key": "true", "ignore.error": " TRUE "}).parse([b"no key"])
    assert (columns.keys, columns.values) == ([None], [b"no key"])


def test_an_empty_separator_leaves_the_key_empty() -> None:
    columns = LineReader({"parse.key": "true", "key.separator": ""}).parse([b"value"])
    assert (columns.keys, columns.values) == ([b""], [b"value"])


@pytest.mark.parametrize(
    "properties",
    [
        {"headers.delimiter": ","},
        {"headers.delimiter": ":"},
        {"headers.separator": ":"},
        {"null.marker": "\t"},
        {"null.marker": ","},
        {"null.marker": ":"},
        {"key.separator": "x", "null.marker": "x"},
        {"headers.separator": "("},
    ],
)
def test_separators_that_cannot_be_told_apart_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(WrongUsage):
        LineReader(properties)
