"""Bounds of Avro values: an item of an array may have no bytes, so that five bytes can say that there are billions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

MOST_EMPTY_ITEMS: Final = 10_000
"""Of a value, all of its arrays together."""

SIZES: Final[Mapping[str, int]] = {"null": 0, "boolean": 1, "float": 4, "double": 8}
VARINTS: Final = ("int", "long", "enum")

Guard = Callable[[bytes, int], None]


def guard_of(schema: Any) -> Guard | None:
    """What to ask before a value of a parsed schema is read, with where it begins; None if there is nothing to ask.

    It raises ValueError for a value with too many items that have no bytes.
    """
    named: dict[str, Any] = {}
    if not _has_empty_items(schema, named):
        return None

    def check(value: bytes, start: int) -> None:
        _Walk(value, start, named).skip(schema)

    return check


class _Walk:
    """Over a value, past all that the writer has put there, whether a reader wants it or not."""

    def __init__(self, value: bytes, start: int, named: Mapping[str, Any]) -> None:
        self._value = value
        self._at = start
        self._named = named
        self._empty_items = 0

    def skip(self, schema: Any) -> None:
        if isinstance(schema, list):
            self.skip(schema[self._number()])
            return
        kind, schema = _kind_of(schema, self._named)
        if kind in SIZES:
            self._at += SIZES[kind]
        elif kind in VARINTS:
            self._number()
        elif kind in ("bytes", "string"):
            self._skip_text()
        elif kind == "fixed":
            self._at += schema["size"]
        elif kind == "array":
            self._skip_array(schema["items"])
        elif kind == "map":
            while count := self._count_of_block():
                for _ in range(count):
                    self._skip_text()
                    self.skip(schema["values"])
        else:
            for field in schema["fields"]:
                self.skip(field["type"])

    def _skip_array(self, items: Any) -> None:
        is_empty = not _least_size(items, self._named)
        while count := self._count_of_block():
            if is_empty:
                self._empty_items += count
                if self._empty_items > MOST_EMPTY_ITEMS:
                    raise ValueError(f"more than {MOST_EMPTY_ITEMS} items of arrays have no bytes")
                continue
            for _ in range(count):
                self.skip(items)

    def _skip_text(self) -> None:
        length = self._number()
        if length < 0:
            raise ValueError("a length is below zero")
        self._at += length

    def _count_of_block(self) -> int:
        count = self._number()
        if count < 0:
            # Behind it is how many bytes the block has.
            self._number()
        return abs(count)

    def _number(self) -> int:
        """Zigzag, seven bits to a byte; EOFError where the value is over."""
        number = shift = 0
        while True:
            if not 0 <= self._at < len(self._value):
                raise EOFError
            byte = self._value[self._at]
            self._at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)


def _has_empty_items(schema: Any, named: dict[str, Any]) -> bool:
    """Whether an array's items may have no bytes; all types that have a name are noted."""
    if isinstance(schema, list):
        # Each of them, for the names.
        found = [_has_empty_items(each, named) for each in schema]
        return any(found)
    if not isinstance(schema, dict):
        return False
    if "name" in schema:
        named[schema["name"]] = schema
    if schema["type"] == "array":
        return _has_empty_items(schema["items"], named) or not _least_size(schema["items"], named)
    if schema["type"] == "map":
        return _has_empty_items(schema["values"], named)
    inner = [field["type"] for field in schema.get("fields", ())]
    if not isinstance(schema["type"], str) or schema["type"] not in KINDS:
        inner.append(schema["type"])
    return _has_empty_items(inner, named)


KINDS: Final = frozenset((*SIZES, *VARINTS, "bytes", "string", "fixed", "array", "map", "record", "error"))


def _kind_of(schema: Any, named: Mapping[str, Any]) -> tuple[str, Any]:
    """The word for a type that is no union, and its definition."""
    while True:
        if isinstance(schema, str):
            if schema in KINDS:
                return schema, schema
            schema = named[schema]
        elif isinstance(schema["type"], str) and schema["type"] in KINDS:
            return schema["type"], schema
        else:
            schema = schema["type"]


def _least_size(schema: Any, named: Mapping[str, Any], within: Sequence[str] = ()) -> int:
    """Of a value in bytes; 0 if it may have none."""
    if isinstance(schema, list):
        return 1
    kind, schema = _kind_of(schema, named)
    if kind == "fixed":
        return int(schema["size"])
    if kind in SIZES:
        return SIZES[kind]
    if kind not in ("record", "error"):
        return 1
    if schema["name"] in within:
        # It is there only behind something that has bytes.
        return 0
    return sum(_least_size(field["type"], named, (*within, schema["name"])) for field in schema["fields"])
