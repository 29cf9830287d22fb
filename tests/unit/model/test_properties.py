"""Properties files mean what they mean to Java."""

import pytest

from levada.model.config import ConfigError
from levada.model.properties import parse_properties


def test_properties_files_are_read_as_java_does() -> None:
    text = """
# comment
  ! another \\
broker.id=7
log.dirs = /tmp/a,\\
    /tmp/b
listeners: PLAINTEXT://:9092
empty=
alone
by.space   one two
path=a\\\\\\\\
next=b
twice=1
twice=2
"""
    assert parse_properties(text) == {
        "broker.id": "7",
        "log.dirs": "/tmp/a,/tmp/b",
        "listeners": "PLAINTEXT://:9092",
        "empty": "",
        "alone": "",
        "by.space": "one two",
        "path": "a\\\\",
        "next": "b",
        "twice": "2",
    }


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a=1\\", {"a": "1"}),
        ("b=2\na=1\\", {"b": "2", "a": "1"}),
        ("a=1\\\n", {"a": "1"}),
        ("a=1\\\n   ", {"a": "1"}),
        ("a\\", {"a": ""}),
        ("a=1\\\\", {"a": "1\\"}),
        ("# a=1\\\nb=2", {"b": "2"}),
        ("\\", {}),
        ("", {}),
    ],
)
def test_a_last_line_that_ends_in_a_backslash_counts(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        (r"a\=b=c", {"a=b": "c"}),
        (r"a\ b\:c d", {"a b:c": "d"}),
        (r"C=C:\\kafka\\logs", {"C": r"C:\kafka\logs"}),
        (r"a=tab\there\nline\q", {"a": "tab\there\nlineq"}),
        (r"a=\u00e9\u0041", {"a": "\u00e9A"}),
        ("a==b", {"a": "=b"}),
        ("a = : b", {"a": ": b"}),
        ("=b", {"": "b"}),
        ("a=b  ", {"a": "b  "}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=x\u2028y\x0bz", {"a": "x\u2028y\x0bz"}),
        ("a=1\\\n# not a comment", {"a": "1# not a comment"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
    ],
)
def test_separators_escapes_and_ends_of_lines_are_javas(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


@pytest.mark.parametrize("text", [r"a=\u12", r"a=\u12x4", r"a\u=1"])
def test_an_escape_that_is_cut_short_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="four hexadecimal digits"):
        parse_properties(text)
