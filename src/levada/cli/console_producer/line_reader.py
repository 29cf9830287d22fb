"""Lines of bytes to the keys, values and headers of records."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO, Final

from levada.cli.kit.refusals import WrongUsage

READ_BYTES: Final = 1 << 20
LINE_FEED: Final = b"\n"
CARRIAGE_RETURN: Final = b"\r"

Headers = list[tuple[str, bytes | None]]


def read_lines(source: BinaryIO) -> Iterator[list[bytes]]:
    """Lines without their ends, as many at a time as there are; a line ends with LF, CR or both, as in Java."""
    unfinished: list[bytes] = []
    after_return = False
    while data := source.read1(READ_BYTES):  # type: ignore[attr-defined]
        if after_return:
            # The line went out already when its CR came.
            data = data.removeprefix(LINE_FEED)
        after_return = data.endswith(CARRIAGE_RETURN)
        unfinished.append(data)
        if LINE_FEED in data or CARRIAGE_RETURN in data:
            lines = b"".join(unfinished).splitlines()
            unfinished = [] if data.endswith((LINE_FEED, CARRIAGE_RETURN)) else [lines.pop()]
            yield lines
    if rest := b"".join(unfinished):
        yield [rest]


@dataclass(slots=True)
class LineColumns:
    """Records side by side; None in place of a list where no record has any."""

    values: list[bytes | None]
    keys: list[bytes | None] | None = None
    headers: list[Headers] | None = None
    fault: str | None = None
    """What is wrong with the line behind the last of these."""


class LineReader:
    """Takes lines apart as Kafka's LineMessageReader does, by the same properties.

    >>> reader = LineReader({"parse.key": "true", "key.separator": ":"})
    >>> columns = reader.parse([b"anna:1", b"bob:2"])
    >>> columns.keys, columns.values
    ([b'anna', b'bob'], [b'1', b'2'])
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._parses_key = _is_true(properties, "parse.key")
        self._parses_headers = _is_true(properties, "parse.headers")
        self._ignores_errors = _is_true(properties, "ignore.error")
        self._key_separator = properties.get("key.separator", "\t").encode()
        self._headers_delimiter = properties.get("headers.delimiter", "\t").encode()
        separator = properties.get("headers.separator", ",")
        self._headers_key_separator = properties.get("headers.key.separator", ":").encode()
        marker = properties.get("null.marker")
        self._null_marker = None if marker is None else marker.encode()
        self._line_number = 0
        self._check(separator.encode())
        try:
            self._headers_separator = re.compile(separator.encode())
        except re.error as error:
            raise WrongUsage(f"headers.separator={separator} is no regular expression: {error}") from None

    def parse(self, lines: list[bytes]) -> LineColumns:
        if self._parses_headers:
            return self._parse_headers(lines)
        if self._parses_key:
            return self._parse_keys(lines)
        self._line_number += len(lines)
        return LineColumns(
            [self._unless_null(line) for line in lines] if self._null_marker is not None else list(lines)
        )

    def _parse_keys(self, lines: list[bytes]) -> LineColumns:
        separator, marker = self._key_separator, self._null_marker
        keys: list[bytes | None] = []
        values: list[bytes | None] = []
        columns = LineColumns(values, keys)
        for line in lines:
            self._line_number += 1
            key: bytes | None
            key, found, value = line.partition(separator) if separator else (b"", b"", line)
            if separator and not found:
                if not self._ignores_errors:
                    columns.fault = self._missing("key separator", "key.separator", line)
                    break
                key, value = None, line
            keys.append(None if key == marker else key)
            values.append(None if value == marker else value)
        return columns

    def _parse_headers(self, lines: list[bytes]) -> LineColumns:
        keys: list[bytes | None] = []
        columns = LineColumns([], keys if self._parses_key else None, [])
        for line in lines:
            self._line_number += 1
            try:
                headers, key, value = self._take_apart(line)
            except _Malformed as malformed:
                columns.fault = str(malformed)
                break
            assert columns.headers is not None
            columns.headers.append(headers)
            keys.append(key)
            columns.values.append(self._unless_null(value))
        return columns

    def _take_apart(self, line: bytes) -> tuple[Headers, bytes | None, bytes]:
        headers, rest = self._up_to(self._headers_delimiter, line, line, "headers delimiter", "headers.delimiter")
        key: bytes | None = None
        if self._parses_key:
            key, rest = self._up_to(self._key_separator, rest, line, "key separator", "key.separator")
        split = [] if headers is None or headers == self._null_marker else self._split_headers(headers)
        return split, self._unless_null(key), rest

    def _up_to(self, separator: bytes, text: bytes, line: bytes, name: str, setting: str) -> tuple[bytes | None, bytes]:
        """What stands before the separator, and what behind it; None if there is none and that is no error."""
        at = text.find(separator)
        if at >= 0:
            return text[:at], text[at + len(separator) :]
        if not self._ignores_errors:
            raise _Malformed(self._missing(name, setting, line))
        return None, text

    def _split_headers(self, text: bytes) -> Headers:
        pairs = self._headers_separator.split(text)
        if len(pairs) > 1:
            # As Java splits: what is empty at the end does not count.
            while pairs and not pairs[-1]:
                pairs.pop()
        return [self._header(pair) for pair in pairs]

    def _header(self, pair: bytes) -> tuple[str, bytes | None]:
        at = pair.find(self._headers_key_separator)
        if at < 0:
            if self._ignores_errors:
                return _text(pair), None
            raise _Malformed(
                f"no header key separator found in pair '{_text(pair)}' on line number {self._line_number}"
                " (it is set by headers.key.separator; ignore.error=true takes it without a value)"
            )
        name = pair[:at]
        if name == self._null_marker:
            raise _Malformed(
                f"line number {self._line_number} has a header whose key is the null.marker '{_text(name)}'"
            )
        return _text(name), self._unless_null(pair[at + len(self._headers_key_separator) :])

    def _unless_null(self, field: bytes | None) -> bytes | None:
        return None if field == self._null_marker else field

    def _missing(self, name: str, setting: str, line: bytes) -> str:
        return (
            f"no {name} found on line number {self._line_number}: '{_text(line)}' (it is set by {setting};"
            " ignore.error=true takes such lines as they are)"
        )

    def _check(self, headers_separator: bytes) -> None:
        fields = {
            "headers.delimiter": self._headers_delimiter,
            "headers.separator": headers_separator,
            "headers.key.separator": self._headers_key_separator,
        }
        if self._null_marker is not None:
            fields["null.marker"] = self._null_marker
        names = list(fields)
        for place, name in enumerate(names):
            for other in names[place + 1 :]:
                if fields[name] == fields[other]:
                    raise WrongUsage(f"{name} and {other} may not be equal")
        if self._key_separator == self._null_marker:
            raise WrongUsage("null.marker and key.separator may not be equal")


class _Malformed(Exception):
    """A line is not as the properties say."""


def _is_true(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "").strip().lower() == "true"


def _text(field: bytes) -> str:
    return field.decode(errors="replace")
