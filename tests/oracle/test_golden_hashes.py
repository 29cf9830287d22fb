"""Compares hashes, ids and variable-length integers with what Apache Kafka 4.3.1's own classes returned."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from levada.model.hashes import (
    coordinator_partition,
    java_string_hash,
    murmur2,
    partition_for_key,
    uuid_from_text,
    uuid_to_text,
)
from levada.records import varint
from levada.records.checksum import crc32c

GOLDEN = Path(__file__).parents[1] / "data" / "golden" / "hashes"


def vectors(name: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads((GOLDEN / f"{name}.json").read_text())
    assert len(entries) > 10
    return entries


def test_crc32c_equals_apaches() -> None:
    for entry in vectors("crc32c"):
        data = base64.b64decode(entry["data"])
        assert crc32c(data) == entry["crc32c"]
        assert crc32c(memoryview(data)[3:], crc32c(data[:3])) == entry["crc32c"]


def test_murmur2_and_partition_choice_equal_apaches() -> None:
    for entry in vectors("murmur2"):
        key = base64.b64decode(entry["key"])
        assert murmur2(key) == entry["murmur2"]
        assert murmur2(memoryview(b"." + key)[1:]) == entry["murmur2"]
        assert murmur2(key) & 0x7FFF_FFFF == entry["positive"]
        for count, partition in entry["partition"].items():
            assert partition_for_key(key, int(count)) == partition


def test_string_hash_and_coordinator_choice_equal_apaches() -> None:
    for entry in vectors("string-hash"):
        assert java_string_hash(entry["id"]) == entry["hashCode"]
        for count, partition in entry["coordinatorPartition"].items():
            assert coordinator_partition(entry["id"], int(count)) == partition


def test_uuid_text_equals_apaches_both_ways() -> None:
    for entry in vectors("uuid"):
        raw = bytes.fromhex(entry["hex"])
        assert uuid_to_text(raw) == entry["text"]
        assert uuid_from_text(entry["text"]) == raw


@pytest.mark.parametrize("text", ["", "short", "A" * 21, "A" * 23, "A" * 21 + "+", "A" * 21 + "=", "A" * 21 + "\n"])
def test_text_that_is_no_uuid_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        uuid_from_text(text)


def test_bytes_that_are_no_uuid_are_refused() -> None:
    with pytest.raises(ValueError):
        uuid_to_text(bytes(15))


def test_variable_length_integers_equal_apaches_both_ways() -> None:
    for entry in vectors("varint"):
        value = entry["value"]
        if "varint" in entry:
            encoded = base64.b64decode(entry["varint"])
            assert varint.encode_varint(value) == encoded
            assert varint.decode_varint(b"." + encoded, 1) == (value, len(encoded) + 1)
        else:
            with pytest.raises(OverflowError):
                varint.encode_varint(value)
        if "varlong" in entry:
            encoded = base64.b64decode(entry["varlong"])
            assert varint.encode_varlong(value) == encoded
            zigzag, end = varint.decode_unsigned(encoded, 0, varint.VARLONG_BYTES)
            assert ((zigzag >> 1) ^ -(zigzag & 1), end) == (value, len(encoded))
        if "unsignedVarint" in entry:
            encoded = base64.b64decode(entry["unsignedVarint"])
            assert varint.encode_unsigned(value) == encoded
            assert varint.decode_unsigned(encoded, 0, varint.VARINT_BYTES) == (value, len(encoded))
