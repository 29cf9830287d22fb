"""Every codec there and back, the framings that other clients expect, and no way to exceed the bound."""

import random
import subprocess
import sys
import tracemalloc
from pathlib import Path

import cramjam
import pytest

from levada.records import Codec, CorruptBatch, DecompressedTooLarge, RecordsError, compress, compression, decompress
from levada.records.compression import MAX_DECOMPRESSED_BYTES

REAL = [codec for codec in Codec if codec is not Codec.NONE]
STREAMS = [Codec.GZIP, Codec.LZ4, Codec.ZSTD]
MIB = 1 << 20
BOMB_SIZE = 256 * MIB

SOURCE = random.Random(7)
SAMPLES = {
    "empty": b"",
    "one byte": b"x",
    "text": b"all work and no play " * 5000,
    "noise": SOURCE.randbytes(200_000),
    "one block": bytes(32 << 10),
    "block and a byte": SOURCE.randbytes((64 << 10) + 1),
}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("codec", Codec)
def test_data_comes_back(codec: Codec, name: str) -> None:
    data = SAMPLES[name]
    for level in (None, 1, 9):
        block = compress(codec, memoryview(data), level)
        assert bytes(decompress(codec, memoryview(b"." + block)[1:], MAX_DECOMPRESSED_BYTES)) == data


@pytest.mark.parametrize("codec", Codec)
def test_bound_is_exact(codec: Codec) -> None:
    for data in (SAMPLES["text"], SAMPLES["noise"]):
        block = compress(codec, data)
        assert bytes(decompress(codec, block, len(data))) == data
        with pytest.raises(DecompressedTooLarge):
            decompress(codec, block, len(data) - 1)


@pytest.mark.parametrize("codec", REAL)
def test_what_was_in_memory_before_is_never_part_of_the_data(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    source = random.Random(11)
    block = compress(codec, SAMPLES["text"][:5000] + SAMPLES["noise"][:500])
    for _ in range(200):
        damaged = bytearray(block)
        for _ in range(source.randrange(3)):
            damaged[source.randrange(len(damaged))] = source.randrange(256)
        outcomes: set[bytes | None] = set()
        for found in (b"\x00", b"\xaa"):
            monkeypatch.setattr(compression, "unfilled", lambda size, found=found: bytearray(found * size))
            try:
                outcomes.add(bytes(decompress(codec, damaged, MIB)))
            except RecordsError:
                outcomes.add(None)
        assert len(outcomes) == 1


@pytest.mark.parametrize("codec", STREAMS)
def test_frames_that_follow_each_other_are_one(codec: Codec) -> None:
    block = compress(codec, b"first ") + compress(codec, b"second")
    assert decompress(codec, block, 12) == b"first second"
    with pytest.raises(DecompressedTooLarge):
        decompress(codec, block, 11)


def test_lz4_blocks_are_independent_as_java_demands() -> None:
    block = compress(Codec.LZ4, SAMPLES["text"])
    assert block[:4] == bytes.fromhex("04224d18")
    version, independent = block[4] >> 6, block[4] >> 5 & 1
    assert (version, independent) == (1, 1)
    # No checksums, no content size, no dictionary, and blocks of 64 KiB: the very bytes that Java writes.
    assert block[4:7] == bytes.fromhex("604082")


@pytest.mark.parametrize("level", range(1, 18))
def test_lz4_levels_keep_the_frame_and_change_its_blocks(level: int) -> None:
    data = b"".join(str(number**9).encode() for number in range(10_000))
    block = compress(Codec.LZ4, data, level)
    assert block[:7] == compress(Codec.LZ4, data)[:7]
    assert bytes(decompress(Codec.LZ4, block)) == data
    assert len(block) != len(compress(Codec.LZ4, data))
    assert level == 1 or len(block) < len(compress(Codec.LZ4, data, 1))


def test_snappy_is_written_in_xerial_blocks_of_32_kib() -> None:
    data = SAMPLES["noise"]
    block = compress(Codec.SNAPPY, data)
    assert block[:16] == b"\x82SNAPPY\x00" + bytes.fromhex("00000001 00000001")
    at, sizes = 16, []
    while at < len(block):
        size = int.from_bytes(block[at : at + 4])
        sizes.append(cramjam.snappy.decompress_raw_len(block[at + 4 : at + 4 + size]))
        at += 4 + size
    assert sizes == [32 << 10] * (len(data) >> 15) + [len(data) % (32 << 10)]


def test_raw_snappy_of_other_clients_is_read() -> None:
    raw = bytes(cramjam.snappy.compress_raw(SAMPLES["text"]))
    assert decompress(Codec.SNAPPY, raw, MIB) == SAMPLES["text"]


def test_xerial_streams_that_follow_each_other_are_one() -> None:
    block = compress(Codec.SNAPPY, b"first ") + compress(Codec.SNAPPY, b"second")
    assert decompress(Codec.SNAPPY, block, 12) == b"first second"


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xff\xff\xff\xff\x0f" + bytes(20), id="raw block of 4 GiB"),
        pytest.param(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", id="length overflows"),
        pytest.param(b"\x82SNAPPY\x00" + bytes(7), id="header cut off"),
        pytest.param(b"\x82SNAPPY\x00" + bytes(8) + b"\x7f\xff\xff\xff", id="xerial block beyond the end"),
        pytest.param(b"\x82SNAPPY\x00" + bytes(8) + b"\xff\xff\xff\xffabc", id="negative block length"),
        pytest.param(b"\x82SNAPPY\x00" + bytes(8) + b"\x00\x00", id="block length cut off"),
        pytest.param(b"\x82SNAPPY\x00" + bytes(8) + b"\x00\x00\x00\x00", id="empty block"),
        pytest.param(
            b"\x82SNAPPY\x00" + bytes(8) + b"\x00\x00\x00\x05\xff\xff\xff\xff\x07", id="xerial block of 2 GiB"
        ),
    ],
)
def test_lying_snappy_is_corrupt_before_anything_is_allocated(block: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch):
            decompress(Codec.SNAPPY, block, 2**40)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", REAL)
def test_garbage_is_corrupt_and_nothing_else(codec: Codec) -> None:
    source = random.Random(int(codec))
    block = compress(codec, SAMPLES["text"][:3000])
    for _ in range(3000):
        damaged = bytearray(block)
        for _ in range(source.choice((1, 2, 8))):
            near_the_start = source.random() < 0.5
            damaged[source.randrange(min(24, len(damaged)) if near_the_start else len(damaged))] = source.randrange(256)
        del damaged[source.choice((len(damaged), source.randrange(len(damaged)))) :]
        try:
            decompress(codec, bytes(damaged), MIB)
        except (CorruptBatch, DecompressedTooLarge):
            continue


@pytest.mark.parametrize("codec", REAL)
def test_every_truncation_is_corrupt(codec: Codec) -> None:
    block = compress(codec, SAMPLES["noise"][:100])
    whole_prefixes = {16} if codec is Codec.SNAPPY else set()
    for cut in set(range(len(block))) - whole_prefixes:
        with pytest.raises(CorruptBatch):
            decompress(codec, block[:cut], MIB)


def large_window_bomb() -> bytes:
    """A zstd frame with a window of 128 MiB, whose blocks each repeat a zero 128 Ki times: 4 bytes for 128 KiB."""
    size_and_type = (128 << 10) << 3 | 1 << 1
    block = size_and_type.to_bytes(3, "little") + b"\0"
    last_block = (size_and_type | 1).to_bytes(3, "little") + b"\0"
    return bytes.fromhex("28b52ffd 00 88") + block * 2047 + last_block


def bombs() -> dict[str, tuple[Codec, bytes]]:
    zeros = bytes(BOMB_SIZE)
    piece = bytes(4 * MIB)
    return {
        "gzip": (Codec.GZIP, compress(Codec.GZIP, zeros)),
        "gzip, many members": (Codec.GZIP, compress(Codec.GZIP, piece) * 64),
        "gzip, many small members": (Codec.GZIP, compress(Codec.GZIP, bytes(1000)) * 100_000),
        "lz4": (Codec.LZ4, compress(Codec.LZ4, zeros)),
        "lz4, many frames": (Codec.LZ4, compress(Codec.LZ4, piece) * 64),
        "zstd": (Codec.ZSTD, compress(Codec.ZSTD, zeros)),
        "zstd, many frames": (Codec.ZSTD, compress(Codec.ZSTD, piece) * 64),
        "zstd, large window": (Codec.ZSTD, large_window_bomb()),
        "snappy, raw": (Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(bytes(64 * MIB)))),
        "snappy, xerial": (Codec.SNAPPY, compress(Codec.SNAPPY, bytes(64 * MIB))),
    }


DEFUSE = """
import pathlib, resource, sys
from levada.records import Codec, DecompressedTooLarge, decompress
codec, data = Codec[sys.argv[1]], pathlib.Path(sys.argv[2]).read_bytes()
decompress(codec, pathlib.Path(sys.argv[3]).read_bytes(), 1 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for _ in range(20):
    try:
        decompress(codec, data, 1 << 20)
    except DecompressedTooLarge:
        continue
    sys.exit("the bomb went off")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_bombs_stay_within_the_bound(tmp_path: Path) -> None:
    for name, (codec, bomb) in bombs().items():
        (tmp_path / "bomb").write_bytes(bomb)
        (tmp_path / "harmless").write_bytes(compress(codec, b"harmless"))
        command = [sys.executable, "-c", DEFUSE, codec.name, str(tmp_path / "bomb"), str(tmp_path / "harmless")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, (name, done.stderr)
        # One buffer of a MiB, as much again for the codec's window, and some slack, where 256 MiB were asked for.
        assert int(done.stdout) < 12 * 1024, (name, f"{done.stdout.strip()} KiB more")


def test_large_window_bomb_is_a_valid_frame() -> None:
    bomb = large_window_bomb()
    assert len(bomb) < 8300
    assert len(decompress(Codec.ZSTD, bomb, BOMB_SIZE)) == BOMB_SIZE


@pytest.mark.parametrize("codec", REAL)
def test_every_fault_is_a_records_error(codec: Codec) -> None:
    with pytest.raises(RecordsError):
        decompress(codec, b"this is not compressed", MIB)
