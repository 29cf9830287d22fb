"""Our CRC-32C beside the package's; where ours cannot run, the package's is what serves."""

import random

import crc32c as package
import pytest

from levada.records import checksum

compiled = pytest.importorskip(
    "levada.records._checksum", reason="not built, or the processor cannot fold", exc_type=ImportError
)

BLOCK = 248


def test_ours_is_what_serves() -> None:
    assert checksum.crc32c is compiled.crc32c


def test_every_length_up_to_some_blocks_and_around_the_larger_ones() -> None:
    data = random.Random(1).randbytes(40 * BLOCK)
    around = [count * BLOCK + delta for count in (13, 16, 17, 31, 32, 33, 39) for delta in range(-9, 10)]
    for size in [*range(6 * BLOCK), *around]:
        assert compiled.crc32c(data[:size]) == package.crc32c(data[:size]), size


def test_wherever_it_begins_and_whatever_came_before() -> None:
    chance = random.Random(2)
    data = memoryview(chance.randbytes(3_000_000))
    for _ in range(300):
        start = chance.randrange(100)
        stop = start + int(10 ** chance.uniform(0, 6.4))
        before = chance.getrandbits(32)
        assert compiled.crc32c(data[start:stop], before) == package.crc32c(data[start:stop], before)


def test_in_pieces_as_at_once() -> None:
    chance = random.Random(3)
    data = memoryview(chance.randbytes(200_000))
    cuts = sorted(chance.randrange(len(data)) for _ in range(50))
    value = 0
    for start, stop in zip([0, *cuts], [*cuts, len(data)]):
        value = compiled.crc32c(data[start:stop], value)
    assert value == package.crc32c(data)


def test_one_wrong_bit_anywhere_is_seen() -> None:
    data = bytearray(random.Random(4).randbytes(10 * BLOCK + 5))
    right = compiled.crc32c(data)
    for index in range(len(data) * 8):
        data[index // 8] ^= 1 << index % 8
        assert compiled.crc32c(data) != right
        data[index // 8] ^= 1 << index % 8


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_taken(kind: type) -> None:
    assert compiled.crc32c(kind(b"123456789")) == 0xE3069283


def test_what_is_no_buffer_is_refused() -> None:
    with pytest.raises(TypeError):
        compiled.crc32c("text")
    with pytest.raises(OverflowError):
        compiled.crc32c(b"", -1)
    with pytest.raises(BufferError):
        compiled.crc32c(memoryview(bytes(10))[::2])
