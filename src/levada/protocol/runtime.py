"""What generated code calls: varints, packers by length, and the slow sides of fast paths."""

from collections.abc import Callable, Generator, Sequence
from functools import cache
from struct import Struct
from typing import NoReturn

from levada.model.buffers import Buffer
from levada.protocol.errors import CannotEncode, MalformedMessage, TooManyElements

SMALL = tuple(bytes((value,)) for value in range(128))
"""Unsigned varints of one byte."""

_TWO_BYTES = Struct("BB").pack
_THREE_BYTES = Struct("BBB").pack

SHORT_ARRAY = 16
"""Arrays of numbers below this length have a packer made beforehand."""


MAX_ELEMENTS_AT_ONCE = 1_000
"""Of all arrays of a message together: so many are decoded, handled and encoded in one turn of an event loop."""
MAX_TAGS_AT_ONCE = 16
"""Of one struct; there may be as many structs as elements."""
SLICE = 512
"""What works in slices pauses when it has been through so many elements more."""
SLICE_MASK = SLICE - 1
NUMBERS_PER_SLICE = 50_000


def uvarint(value: int) -> bytes:
    """An unsigned varint of any length."""
    if value < 1 << 7:
        return SMALL[value]
    if value < 1 << 14:
        return _TWO_BYTES(value & 127 | 128, value >> 7)
    if value < 1 << 21:
        return _THREE_BYTES(value & 127 | 128, value >> 7 & 127 | 128, value >> 14)
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def read_long_uvarint(data: Buffer, position: int, first: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte says that more follow."""
    value = first & 127
    for shift in (7, 14, 21, 28):
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value > 0xFFFFFFFF:
                break
            return value, position
    raise MalformedMessage("a length takes more than 32 bits")


def read_uvarint(data: Buffer, position: int) -> tuple[int, int]:
    first = data[position]
    if first < 128:
        return first, position + 1
    second = data[position + 1]
    if second < 128:
        return first & 127 | second << 7, position + 2
    return read_long_uvarint(data, position + 1, first)


@cache
def array_unpacker(letter: str, count: int) -> Callable[[Buffer, int], tuple[int, ...]]:
    return Struct(f">{letter * count if len(letter) > 1 else f'{count}{letter}'}").unpack_from


def short_unpackers(letter: str) -> list[Callable[[Buffer, int], tuple[int, ...]]]:
    return [array_unpacker(letter, count) for count in range(SHORT_ARRAY)]


@cache
def array_packer(prefix: str, letter: str, count: int) -> Callable[..., bytes]:
    return Struct(f">{prefix}{letter * count if len(letter) > 1 else f'{count}{letter}'}").pack


def short_packers(prefix: str, letter: str) -> list[Callable[..., bytes]]:
    return [array_packer(prefix, letter, count) for count in range(SHORT_ARRAY)]


def long_array(prefix: str, letter: str, values: Sequence[object]) -> bytes:
    """An array too long to have its own packer; compact ones have the prefix `B`."""
    count = len(values)
    # Not cached: lengths come from outside and would fill the cache.
    body = Struct(f">{letter * count if len(letter) > 1 else f'{count}{letter}'}").pack(*values)
    return (uvarint(count + 1) if prefix == "B" else count.to_bytes(4, "big")) + body


def read_long_array(letter: str, data: Buffer, position: int, count: int) -> tuple[int, ...]:
    unpacked: tuple[int, ...] = Struct(f">{letter * count if len(letter) > 1 else f'{count}{letter}'}").unpack_from(
        data, position
    )
    return unpacked


def new_count() -> list[int]:
    """What a sliced decoder counts with: the elements so far, and how many there are at the next pause."""
    return [0, SLICE]


def read_numbers_in_slices(
    letter: str, size: int, data: Buffer, position: int, count: int, done: list[int]
) -> Generator[None, None, list[int]]:
    numbers: list[int] = []
    for start in range(0, count, NUMBERS_PER_SLICE):
        part = min(count - start, NUMBERS_PER_SLICE)
        numbers += read_long_array(letter, data, position + start * size, part)
        done[0] += part
        yield
    return numbers


def refuse_many() -> NoReturn:
    raise TooManyElements(f"more than {MAX_ELEMENTS_AT_ONCE} elements")


def refuse_null(field: str) -> NoReturn:
    raise MalformedMessage(f"{field} may not be null in this version")


def refuse_length(field: str) -> NoReturn:
    raise MalformedMessage(f"{field} is longer than the bytes that remain")


def refuse_string(field: str) -> NoReturn:
    raise MalformedMessage(f"{field} is longer than a string may be")


def refuse_tag_size(tag: int) -> NoReturn:
    raise MalformedMessage(f"tag {tag} does not have the size it names")


def refuse_value(field: str) -> NoReturn:
    raise CannotEncode(f"this version has no field {field}, and its value is not the default")


def write_tags(
    write: Callable[[bytes], object], tags: list[tuple[int, bytes]], unknown: dict[int, bytes] | None
) -> None:
    """The tag buffer of a struct, ascending, with the tags it was decoded with and does not know."""
    if unknown:
        tags = sorted([*tags, *unknown.items()])
    write(uvarint(len(tags)))
    for tag, value in tags:
        size = len(value)
        # Nearly all are small, and a call costs more than what it does.
        write(SMALL[tag] if tag < 128 else uvarint(tag))
        write(SMALL[size] if size < 128 else uvarint(size))
        write(value)
