"""Java's properties files, read as `java.util.Properties` does."""

import re
from collections.abc import Iterator

from levada.model.config import ConfigError

_ENDS_OF_LINES = re.compile(r"\r\n|\n|\r")
_SPACE = " \t\f"
_KEY = re.compile(r"(?:[^\\=: \t\f]|\\.)*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(?:u(.{0,4})|(.))", re.DOTALL)
_HEX = re.compile(r"[0-9A-Fa-f]{4}")
_NAMED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """`key=value`, `key: value` or `key value`; comments with # or !; a backslash continues a line or escapes."""
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        key = _KEY.match(line)
        assert key is not None, "it matches nothing as well"
        separator = _SEPARATOR.match(line, key.end())
        assert separator is not None
        properties[_unescaped(key[0])] = _unescaped(line[separator.end() :])
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    """Without comments and empty lines; what a backslash continues is one line."""
    begun = ""
    """What a backslash continues."""
    for line in _ENDS_OF_LINES.split(text):
        line = line.lstrip(_SPACE)
        if not begun and (not line or line.startswith(("#", "!"))):
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2:
            begun += line[:-1]
        else:
            yield begun + line
            begun = ""
    if begun:
        # The last line asks for another.
        yield begun


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(escape: re.Match[str]) -> str:
    digits, other = escape[1], escape[2]
    if digits is None:
        return _NAMED.get(other, other)
    if not _HEX.fullmatch(digits):
        raise ConfigError(f"a properties file has \\u{digits} where \\u and four hexadecimal digits belong")
    return chr(int(digits, 16))
