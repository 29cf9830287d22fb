"""Compresses and decompresses record sections with the four codecs of Kafka, never beyond a given size."""

from collections.abc import Callable, Iterator
from enum import IntEnum
from types import MappingProxyType
from typing import Final

import cramjam

from levada.model.buffers import Buffer
from levada.records.errors import CorruptBatch, DecompressedTooLarge, UnsupportedCompression
from levada.records.kernel import unfilled

# What a reader allows a batch to grow to where nothing else bounds it: far above Kafka's default batch of 1 MiB.
MAX_DECOMPRESSED_BYTES: Final = 128 << 20

CODEC_BITS: Final = 0x07


class Codec(IntEnum):
    """The low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def codec_of(attributes: int) -> Codec:
    """The codec that a batch's attributes name."""
    codec = _CODECS.get(attributes & CODEC_BITS)
    if codec is None:
        raise UnsupportedCompression(f"no compression codec has the number {attributes & CODEC_BITS}")
    return codec


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """The data as one compressed block; without a level, at the level that Kafka's clients use."""
    if codec is Codec.NONE:
        return bytes(data)
    return _COMPRESSORS[codec](data, level)


def decompress(codec: Codec, data: Buffer, max_size: int = MAX_DECOMPRESSED_BYTES) -> Buffer:
    """The data that a block holds, allocating about max_size at most whatever the block claims to hold."""
    if codec is Codec.NONE:
        if len(data) > max_size:
            raise DecompressedTooLarge(f"{len(data)} bytes where {max_size} are allowed")
        return data
    if codec is Codec.SNAPPY:
        return _decompress_snappy(data, max_size)
    return _decompress_stream(_DECOMPRESSORS[codec], data, max_size)


_CODECS = {int(codec): codec for codec in Codec}

# Rust's standard library says so when its fixed output slice is full; every stream decoder of cramjam passes it on.
_OUTPUT_IS_FULL = "failed to write whole buffer"

_FIRST_OUTPUT = 64 << 10


def _decompress_stream(decompress_into: Callable[[Buffer, bytearray], int], data: Buffer, max_size: int) -> bytearray:
    """Decompress into a buffer of a guessed size, and again into a larger one if it was too small.

    Frames may lie about their content size or leave it out, and several may follow each other; only the output can be
    trusted. Growing eightfold bounds the work done twice to an eighth.
    """
    capacity = min(max_size, max(_FIRST_OUTPUT, 8 * len(data)))
    while True:
        # Zeros that are overwritten take as long as decompressing, and are written with the interpreter lock held.
        output = unfilled(capacity)
        try:
            size = decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if str(error) != _OUTPUT_IS_FULL:
                raise CorruptBatch(f"compressed records: {error}") from None
        else:
            del output[size:]
            return output
        if capacity >= max_size:
            raise DecompressedTooLarge(f"compressed records hold more than {max_size} bytes")
        # The full buffer goes before its successor comes, so that both never exist together.
        del output
        capacity = min(max_size, 8 * capacity)


# Snappy: snappy-java wraps raw blocks in a framing of its own, which Kafka's clients write and which is not snappy's.

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + (1).to_bytes(4) + (1).to_bytes(4)
_XERIAL_BLOCK = 32 << 10

# The densest element of raw snappy is a copy of 64 bytes in 3.
_SNAPPY_MAX_RATIO = 22


def _compress_snappy(data: Buffer, level: int | None) -> bytes:
    parts: list[Buffer] = [_XERIAL_HEADER]
    for chunk in _chunks(data, _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(chunk))
        parts += (len(block).to_bytes(4), block)
    return b"".join(parts)


def _decompress_snappy(data: Buffer, max_size: int) -> Buffer:
    view = memoryview(data)
    blocks = list(_xerial_blocks(view)) if view[:8] == _XERIAL_MAGIC else [view]
    sizes = [_snappy_size(block) for block in blocks]
    if sum(sizes) > max_size:
        raise DecompressedTooLarge(f"compressed records hold {sum(sizes)} bytes where {max_size} are allowed")
    output = unfilled(sum(sizes))
    start = 0
    with memoryview(output) as target:
        for block, size in zip(blocks, sizes):
            try:
                cramjam.snappy.decompress_raw_into(block, target[start : start + size])
            except cramjam.DecompressionError as error:
                raise CorruptBatch(f"compressed records: {error}") from None
            start += size
    return output


def _xerial_blocks(view: memoryview) -> Iterator[memoryview]:
    at = 0
    while at < len(view):
        # Streams may be appended to each other, each with its own header.
        if view[at : at + len(_XERIAL_MAGIC)] == _XERIAL_MAGIC:
            at += len(_XERIAL_HEADER)
            if at > len(view):
                raise CorruptBatch("snappy header cut off")
            continue
        size = int.from_bytes(view[at : at + 4])
        at += 4
        if size > len(view) - at:
            raise CorruptBatch("snappy block beyond the end of the batch")
        yield view[at : at + size]
        at += size


def _snappy_size(block: memoryview) -> int:
    """The size that a raw block claims, if its bytes could hold that much."""
    try:
        size = cramjam.snappy.decompress_raw_len(block)
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"compressed records: {error}") from None
    if size > _SNAPPY_MAX_RATIO * len(block):
        raise CorruptBatch(f"{len(block)} bytes of snappy cannot hold {size}")
    return size


# LZ4: the frame is written by hand, because Java refuses linked blocks, which cramjam's frames have by default, and its
# streaming compressor is slower. The header is the one Java writes: magic; version 1, independent blocks, no checksums
# (0x60); blocks of 64 KiB (0x40); a byte of the xxHash-32 of these two.

_LZ4_HEADER = bytes.fromhex("04224d18 60 40 82")
_LZ4_BLOCK = 64 << 10
_LZ4_STORED = 1 << 31
_LZ4_END = bytes(4)


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    parts: list[Buffer] = [_LZ4_HEADER]
    for chunk in _chunks(data, _LZ4_BLOCK):
        parts += _lz4_block(chunk) if level is None else (_lz4_block_at(chunk, level),)
    parts.append(_LZ4_END)
    return b"".join(parts)


def _lz4_block(chunk: memoryview) -> tuple[Buffer, Buffer]:
    block = bytes(cramjam.lz4.compress_block(chunk, store_size=False))
    if len(block) < len(chunk):
        return len(block).to_bytes(4, "little"), block
    return (len(chunk) | _LZ4_STORED).to_bytes(4, "little"), chunk


def _lz4_block_at(chunk: memoryview, level: int) -> Buffer:
    """The only block of a frame of the library's, which knows levels for frames alone; nothing comes before it to link.

    Around it are a header as long as ours, two checksums and the end.
    """
    frame = memoryview(cramjam.lz4.compress(chunk, level=level))
    block = frame[len(_LZ4_HEADER) : -3 * len(_LZ4_END)]
    assert int.from_bytes(block[:4], "little") & ~_LZ4_STORED == len(block) - 4, "more than one block"
    return block


def _compress_gzip(data: Buffer, level: int | None) -> bytes:
    return bytes(cramjam.gzip.compress(data, level=6 if level is None else level))


def _compress_zstd(data: Buffer, level: int | None) -> bytes:
    return bytes(cramjam.zstd.compress(data, level=3 if level is None else level))


def _chunks(data: Buffer, size: int) -> Iterator[memoryview]:
    view = memoryview(data)
    for start in range(0, len(view), size):
        yield view[start : start + size]


_COMPRESSORS: MappingProxyType[Codec, Callable[[Buffer, int | None], bytes]] = MappingProxyType(
    {
        Codec.GZIP: _compress_gzip,
        Codec.SNAPPY: _compress_snappy,
        Codec.LZ4: _compress_lz4,
        Codec.ZSTD: _compress_zstd,
    }
)

_DECOMPRESSORS: MappingProxyType[Codec, Callable[[Buffer, bytearray], int]] = MappingProxyType(
    {
        Codec.GZIP: cramjam.gzip.decompress_into,
        Codec.LZ4: cramjam.lz4.decompress_into,
        Codec.ZSTD: cramjam.zstd.decompress_into,
    }
)
