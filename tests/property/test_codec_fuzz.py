"""Hostile bytes: every decoder answers with one kind of error, at once, and without making more than it was given."""

import random
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levada.protocol.api import ApiKey, request_class, response_class
from levada.protocol.codec import decode, decoder_of, encode_bytes
from levada.protocol.errors import MalformedMessage
from levada.protocol.schema import FieldSpec, fields_of

MESSAGES: list[tuple[type[Any], int]] = [
    (cls, version)
    for key in ApiKey
    for cls in (request_class(key), response_class(key))
    for version in (cls.versions[0], cls.versions[-1])
]

OBJECT_BYTES_PER_WIRE_BYTE = 250
"""An empty struct of one or two bytes becomes a Python object with a slot for each of its fields."""


def filled(chance: random.Random, cls: type[Any], version: int, depth: int = 0) -> Any:
    return cls(**{spec.name: _value(chance, spec, version, depth) for spec in fields_of(cls)})


def _value(chance: random.Random, spec: FieldSpec, version: int, depth: int) -> Any:
    if not spec.lives_in(version):
        return spec.default_factory() if spec.default_factory else spec.default
    if spec.is_array:
        return [_single(chance, spec, version, depth) for _ in range(chance.randrange(3))]
    return _single(chance, spec, version, depth)


def _single(chance: random.Random, spec: FieldSpec, version: int, depth: int) -> Any:
    if spec.struct is not None:
        return filled(chance, spec.struct, version, depth + 1)
    if spec.wire in ("string",):
        return "x" * chance.randrange(4)
    if spec.wire in ("bytes", "records"):
        return bytes(chance.randrange(4))
    if spec.wire == "uuid":
        return chance.randbytes(16)
    return False if spec.wire == "bool" else chance.randrange(100)


def try_to_decode(cls: type[Any], version: int, data: bytes) -> None:
    try:
        decode(cls, version, memoryview(data))
    except MalformedMessage:
        pass


@pytest.mark.parametrize(("cls", "version"), MESSAGES, ids=lambda value: getattr(value, "__name__", str(value)))
def test_truncated_flipped_and_over_long_messages_raise_only_one_error(cls: type[Any], version: int) -> None:
    chance = random.Random(f"{cls.__name__}{version}")
    for _ in range(3):
        encoded = encode_bytes(filled(chance, cls, version), version)
        for end in range(len(encoded)):
            with pytest.raises(MalformedMessage):
                decode(cls, version, memoryview(encoded)[:end])
        with pytest.raises(MalformedMessage):
            decode(cls, version, encoded + b"\0")
        for _ in range(60):
            damaged = bytearray(encoded or b"\0")
            for _ in range(chance.randrange(1, 4)):
                damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
            try_to_decode(cls, version, bytes(damaged))


@settings(max_examples=600, deadline=None)
@given(message=st.sampled_from(MESSAGES), data=st.binary(max_size=400))
def test_random_bytes_raise_only_one_error(message: tuple[type[Any], int], data: bytes) -> None:
    try_to_decode(*message, data)


@pytest.mark.parametrize(
    "fill", [b"\x00", b"\x01", b"\x02", b"\x7f", b"\x80", b"\xff", b"\x00\x00\x00\x01", b"\x02\x00"]
)
def test_a_frame_never_costs_more_than_a_fixed_multiple_of_its_size(fill: bytes) -> None:
    frame = fill * (100_000 // len(fill))
    for cls, version in MESSAGES:
        decoder_of(cls, version)
        tracemalloc.start()
        try_to_decode(cls, version, frame)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < len(frame) * OBJECT_BYTES_PER_WIRE_BYTE, (cls, version, peak)


@pytest.mark.parametrize("claim", [2**31 - 1, 2**30, 2**24])
def test_a_lying_count_allocates_nothing(claim: int) -> None:
    from levada.protocol.messages.metadata import MetadataRequest, MetadataResponse

    tracemalloc.start()
    for cls in (MetadataRequest, MetadataResponse):
        with pytest.raises(MalformedMessage):
            decode(cls, 1, claim.to_bytes(4, "big") + bytes(100))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 500_000
