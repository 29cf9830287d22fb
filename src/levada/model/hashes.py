"""The hashes and text forms that all Kafka clients and brokers must agree on."""

import binascii
import re
from struct import unpack_from

from levada.model.buffers import Buffer

_MASK = 0xFFFF_FFFF
_SEED = 0x9747_B28C
_MULTIPLIER = 0x5BD1_E995
_UUID_TEXT = re.compile(r"[A-Za-z0-9_-]{22}")


def partition_for_key(key: Buffer, partition_count: int) -> int:
    """The partition that Java's producer chooses for a key."""
    return (murmur2(key) & 0x7FFF_FFFF) % partition_count


def murmur2(data: Buffer) -> int:
    """The 32-bit murmur2 hash with Kafka's seed, signed as Java has it."""
    size = len(data)
    whole = size // 4
    value = _SEED ^ size
    for group in unpack_from(f"<{whole}I", data):
        group = group * _MULTIPLIER & _MASK
        group = (group ^ group >> 24) * _MULTIPLIER & _MASK
        value = value * _MULTIPLIER & _MASK ^ group
    if size % 4:
        tail = int.from_bytes(data[4 * whole :], "little")
        value = (value ^ tail) * _MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _MULTIPLIER & _MASK
    return _signed(value ^ value >> 15)


def coordinator_partition(identifier: str, partition_count: int) -> int:
    """The partition of an internal topic whose leader coordinates this group or transactional id."""
    value = abs(java_string_hash(identifier))
    # Java's abs leaves the smallest number negative; Kafka counts it as 0.
    return (0 if value == 1 << 31 else value) % partition_count


def java_string_hash(text: str) -> int:
    """Java's String.hashCode, which runs over UTF-16 code units."""
    value = 0
    for unit in text.encode() if text.isascii() else _code_units(text):
        value = 31 * value + unit & _MASK
    return _signed(value)


def _code_units(text: str) -> tuple[int, ...]:
    # Lone surrogates are legal in a Java string, so they hash rather than fail.
    encoded = text.encode("utf-16-le", "surrogatepass")
    return unpack_from(f"<{len(encoded) // 2}H", encoded)


def uuid_to_text(raw: bytes) -> str:
    """The 22 characters of URL-safe base64 by which Kafka writes topic and directory ids."""
    if len(raw) != 16:
        raise ValueError(f"an id has 16 bytes, not {len(raw)}")
    return binascii.b2a_base64(raw, newline=False)[:22].decode().translate(_TO_URL_SAFE)


def uuid_from_text(text: str) -> bytes:
    """The 16 bytes that an id's text form stands for."""
    if not _UUID_TEXT.fullmatch(text):
        raise ValueError(f"not an id of 22 characters: {text!r}")
    return binascii.a2b_base64(text.translate(_FROM_URL_SAFE) + "==")


_TO_URL_SAFE = str.maketrans("+/", "-_")
_FROM_URL_SAFE = str.maketrans("-_", "+/")


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value
