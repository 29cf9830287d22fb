"""Kafka's variable-length integers: base 128 with the low group first, zig-zag for signed ones."""

from levada.model.buffers import Buffer
from levada.records.errors import CorruptBatch

VARINT_BYTES = 5
VARLONG_BYTES = 10

_MASKS = {VARINT_BYTES: 0xFFFF_FFFF, VARLONG_BYTES: 0xFFFF_FFFF_FFFF_FFFF}


def encode_varint(value: int) -> bytes:
    """A signed 32-bit number in 1 to 5 bytes."""
    if not -(1 << 31) <= value < 1 << 31:
        raise OverflowError(f"{value} does not fit 32 bits")
    return encode_unsigned((value << 1) ^ (value >> 31))


def encode_varlong(value: int) -> bytes:
    """A signed 64-bit number in 1 to 10 bytes."""
    if not -(1 << 63) <= value < 1 << 63:
        raise OverflowError(f"{value} does not fit 64 bits")
    return encode_unsigned((value << 1) ^ (value >> 63))


def encode_unsigned(value: int) -> bytes:
    """A number that is not negative, seven bits to a byte."""
    if value < 0:
        raise OverflowError(f"{value} is negative")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode_varint(data: Buffer, at: int = 0) -> tuple[int, int]:
    """The signed 32-bit number at a position, and the position after it."""
    value, at = decode_unsigned(data, at, VARINT_BYTES)
    return (value >> 1) ^ -(value & 1), at


def decode_unsigned(data: Buffer, at: int, max_bytes: int) -> tuple[int, int]:
    """The number at a position and the position after it; bits that a Java int or long would drop are dropped."""
    value = shift = 0
    try:
        for position in range(at, at + max_bytes):
            byte = data[position]
            if byte < 0x80:
                return (value | byte << shift) & _MASKS[max_bytes], position + 1
            value |= (byte & 0x7F) << shift
            shift += 7
    except IndexError:
        raise CorruptBatch("bytes end within a variable-length integer") from None
    raise CorruptBatch(f"variable-length integer at byte {at} has more than {max_bytes} bytes")
