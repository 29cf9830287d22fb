"""Encodes a message into tokens, so that a test can lie about one length and leave the rest as it is.

Written apart from the codec that it tests.
"""

import random
from collections.abc import Sized
from dataclasses import dataclass, replace
from struct import Struct
from typing import Any

from levada.protocol.schema import FIXED, FieldSpec, fields_of

MOST = {2: 2**15 - 1, 4: 2**31 - 1, 0: 2**31 - 2}
NEGATIVE = {2: (-1, -2, -(2**15)), 4: (-1, -2, -(2**31)), 0: (-1,)}
"""Lengths by their width."""


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of an encoded message; `length` is set where it says how much follows."""

    data: bytes
    length: int | None = None
    width: int = 0
    """In bytes; 0 is a varint that counts from one."""
    may_be_null: bool = False

    def saying(self, length: int) -> "Token":
        return replace(self, data=_length(length, self.width), length=length)


def tokens(message: Any, version: int) -> list[Token]:
    writer = _Writer(version, version >= message.flexible_since)
    writer.struct(message)
    return writer.tokens


def joined(pieces: list[Token]) -> bytes:
    return b"".join(piece.data for piece in pieces)


def with_a_huge_length(chance: random.Random, pieces: list[Token]) -> bytes | None:
    """More is announced than there is; None if the message has no place for such a lie."""
    lies = []
    remaining = len(joined(pieces))
    for at, piece in enumerate(pieces):
        remaining -= len(piece.data)
        if piece.length is not None:
            # An element of a list takes at least one byte, as a byte does.
            claims = (remaining + 1, MOST[piece.width] // 2, MOST[piece.width])
            lies += [(at, claim) for claim in claims if remaining < claim <= MOST[piece.width]]
    return _with_a_lie(chance, pieces, lies)


def with_a_null(chance: random.Random, pieces: list[Token]) -> bytes | None:
    """Something is null that may not be; None if everything may."""
    lies = [
        (at, claim)
        for at, piece in enumerate(pieces)
        if piece.length is not None and not piece.may_be_null
        for claim in NEGATIVE[piece.width]
    ]
    return _with_a_lie(chance, pieces, lies)


def _with_a_lie(chance: random.Random, pieces: list[Token], lies: list[tuple[int, int]]) -> bytes | None:
    if not lies:
        return None
    at, claim = chance.choice(lies)
    return joined([*pieces[:at], pieces[at].saying(claim), *pieces[at + 1 :]])


class _Writer:
    def __init__(self, version: int, is_flexible: bool) -> None:
        self._version = version
        self._is_flexible = is_flexible
        self.tokens: list[Token] = []

    def struct(self, value: Any) -> None:
        tagged = []
        for spec in fields_of(type(value)):
            if spec.lives_in(self._version):
                if spec.tag is None:
                    self._field(spec, getattr(value, spec.name))
                elif getattr(value, spec.name) != spec.default:
                    tagged.append((spec.tag, spec, getattr(value, spec.name)))
        if self._is_flexible:
            self._tags(sorted(tagged, key=lambda one: one[0]))

    def _tags(self, tagged: list[tuple[int, FieldSpec, Any]]) -> None:
        self._write(varint(len(tagged)))
        for number, spec, value in tagged:
            inner = _Writer(self._version, self._is_flexible)
            inner._field(spec, value)
            content = joined(inner.tokens)
            self._write(varint(number) + varint(len(content)) + content)

    def _field(self, spec: FieldSpec, value: Any) -> None:
        if spec.is_array:
            self._announce(value, 4, may_be_null=spec.nullable_in(self._version))
            for one in value or ():
                self._single(spec, one, may_be_null=False)
        else:
            self._single(spec, value, may_be_null=spec.nullable_in(self._version))

    def _single(self, spec: FieldSpec, value: Any, *, may_be_null: bool) -> None:
        if spec.struct is not None:
            if may_be_null:
                self._write(b"\xff" if value is None else b"\x01")
            if value is not None:
                self.struct(value)
        elif spec.wire in FIXED:
            self._write(Struct(">" + FIXED[spec.wire]).pack(value))
        else:
            content = value.encode() if isinstance(value, str) else value
            self._announce(content, 2 if spec.wire == "string" else 4, may_be_null=may_be_null)
            self._write(bytes(content or b""))

    def _announce(self, content: Sized | None, width: int, *, may_be_null: bool) -> None:
        length = -1 if content is None else len(content)
        width = 0 if self._is_flexible else width
        self.tokens.append(Token(_length(length, width), length, width, may_be_null))

    def _write(self, data: bytes) -> None:
        self.tokens.append(Token(data))


def _length(length: int, width: int) -> bytes:
    return length.to_bytes(width, "big", signed=True) if width else varint(length + 1)


def varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
