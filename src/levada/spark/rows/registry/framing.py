"""Confluent's prefix of a value: a zero, the schema's id in four bytes, and for Protobuf which message it is."""

from collections.abc import Sequence
from typing import Final

MAGIC: Final = 0
PREFIX_BYTES: Final = 5
MOST_ID: Final = 2**31 - 1
MOST_INDEXES: Final = 100
"""Messages inside of each other; Protobuf's own limit."""
VARINT_BYTES: Final = 5
FIRST_MESSAGE: Final = (0,)


class NotFramed(ValueError):
    """A value without a whole prefix; the text says why."""


def schema_id_of(value: bytes) -> int:
    if len(value) < PREFIX_BYTES:
        raise NotFramed(
            f"the value has no schema id before it: it has {len(value)} bytes, and {PREFIX_BYTES} are those of an id"
        )
    if value[0] != MAGIC:
        raise NotFramed(f"the value has no schema id before it: its first byte is {value[0]}, not {MAGIC}")
    found = int.from_bytes(value[1:PREFIX_BYTES])
    if found > MOST_ID:
        raise NotFramed(f"the value has no schema id before it: {found} is none")
    return found


def prefix_of(schema_id: int) -> bytes:
    return bytes([MAGIC]) + schema_id.to_bytes(PREFIX_BYTES - 1)


def message_indexes_of(value: bytes) -> tuple[tuple[int, ...], int]:
    """Which message of its schema a Protobuf value is, level by level, and where its bytes begin."""
    count, position = _varint(value, PREFIX_BYTES)
    if count == 0:
        return FIRST_MESSAGE, position
    if not 0 < count <= MOST_INDEXES:
        raise NotFramed(f"the value has no message index before it: {count} levels")
    indexes = []
    for _ in range(count):
        index, position = _varint(value, position)
        if index < 0:
            raise NotFramed(f"the value has no message index before it: {index}")
        indexes.append(index)
    return tuple(indexes), position


def message_indexes(indexes: Sequence[int]) -> bytes:
    """The first message, which most schemas have alone, is a single zero."""
    if tuple(indexes) == FIRST_MESSAGE:
        return b"\x00"
    return b"".join(_zigzag(number) for number in (len(indexes), *indexes))


def _varint(value: bytes, position: int) -> tuple[int, int]:
    found = 0
    for index, byte in enumerate(value[position : position + VARINT_BYTES]):
        found |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1), position + index + 1
    raise NotFramed("the value has no whole message index before it")


def _zigzag(number: int) -> bytes:
    left = number << 1
    found = bytearray()
    while left >= 0x80:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)
