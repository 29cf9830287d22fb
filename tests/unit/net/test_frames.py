"""Frames out of a stream, however the stream is cut."""

import random

import pytest

from levada.model.buffers import KEPT_BYTES, SpareBuffer
from levada.net.frames import AHEAD, SCRATCH_SIZE, SMALLEST_STEP, FrameReader, InvalidFrame

LIMIT = 10_000_000


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def read_all(reader: FrameReader, stream: bytes, chunk: int) -> list[bytes]:
    """Feed the stream in chunks, as a transport would, using the shared memory in between as others would."""
    frames = []
    position = 0
    while position < len(stream):
        target = reader.buffer()
        piece = stream[position : position + min(chunk, len(target))]
        target[: len(piece)] = piece
        position += len(piece)
        reader.received(len(piece))
        while (frame := reader.next_frame()) is not None:
            frames.append(bytes(frame))
        if reader.announced:
            reader.begin()
        reader.park()
        reader._scratch[:] = b"\xdd" * len(reader._scratch)
    return frames


BODIES = (b"", b"a", b"bc" * 10, bytes(60), b"large" * 100, b"", b"z" * 2_000)


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 7, 64, 100, 1_000_000])
def test_frames_come_out_whole_however_they_arrive(chunk: int) -> None:
    assert read_all(FrameReader(bytearray(64), LIMIT), framed(*BODIES), chunk) == list(BODIES)


def test_frames_of_random_sizes_in_random_chunks() -> None:
    chance = random.Random(1)
    for _ in range(200):
        bodies = [chance.randbytes(chance.choice((0, 1, 30, 59, 60, 61, 300))) for _ in range(chance.randrange(1, 9))]
        reader = FrameReader(bytearray(64), LIMIT)
        assert read_all(reader, framed(*bodies), chance.randrange(1, 200)) == bodies


@pytest.mark.parametrize("size", [-1, -(2**31), LIMIT + 1, 2**31 - 1])
def test_an_impossible_size_ends_the_stream(size: int) -> None:
    reader = FrameReader(bytearray(64), LIMIT)
    reader.receive(size.to_bytes(4, "big", signed=True))
    with pytest.raises(InvalidFrame):
        reader.next_frame()


def test_small_frames_share_one_buffer_and_are_not_copied() -> None:
    scratch = bytearray(64)
    reader = FrameReader(scratch, LIMIT)
    reader.receive(framed(b"abc", b"def"))
    first = reader.next_frame()
    assert first is not None
    scratch[4] = ord("X")
    assert bytes(first) == b"Xbc"


def test_a_large_frame_has_a_buffer_of_its_own() -> None:
    scratch = bytearray(64)
    reader = FrameReader(scratch, LIMIT)
    stream = framed(b"x" * 1_000)
    reader.receive(stream[:64])
    assert reader.next_frame() is None
    reader.begin()
    reader.park()
    scratch[:] = bytes(64)
    reader.receive(stream[64:])
    frame = reader.next_frame()
    assert frame is not None
    assert bytes(frame) == b"x" * 1_000
    assert reader.next_frame() is None


@pytest.mark.parametrize("came", [b"", b"x" * (SCRATCH_SIZE - 4)])
def test_memory_follows_the_bytes_that_came_and_not_the_size_that_was_claimed(came: bytes) -> None:
    reader = FrameReader(bytearray(SCRATCH_SIZE), 2**31 - 1)
    reader.receive((2**31 - 1).to_bytes(4, "big") + came)
    assert reader.next_frame() is None
    assert reader.announced == 2**31 - 1
    reader.begin()
    assert reader._large is not None
    assert len(reader._large) == max(AHEAD * len(came), SMALLEST_STEP)
    received = len(came)
    for _ in range(5):
        received += len(reader.buffer())
        reader.received(len(reader.buffer()))
        assert len(reader._large) == received
        assert len(reader.buffer()) == received


def test_an_announced_frame_waits_until_it_may_begin() -> None:
    scratch = bytearray(64)
    reader = FrameReader(scratch, LIMIT)
    stream = framed(b"small", b"x" * 1_000)
    reader.receive(stream[:64])
    assert bytes(reader.next_frame() or b"") == b"small"
    for _ in range(2):
        assert reader.next_frame() is None
        assert reader.announced == 1_000
        reader.park()
        scratch[:] = b"\xdd" * 64
        reader.unpark()
    assert reader.next_frame() is None
    reader.begin()
    assert reader.announced == 0
    reader.receive(stream[64:])
    assert bytes(reader.next_frame() or b"") == b"x" * 1_000


def test_parked_bytes_come_back_without_reading_more() -> None:
    scratch = bytearray(64)
    reader = FrameReader(scratch, LIMIT)
    reader.receive(framed(b"one", b"two", b"three")[:-1])
    assert bytes(reader.next_frame() or b"") == b"one"
    reader.park()
    scratch[:] = bytes(64)
    reader.unpark()
    assert bytes(reader.next_frame() or b"") == b"two"
    assert reader.next_frame() is None
    reader.park()
    reader.receive(b"e")
    assert bytes(reader.next_frame() or b"") == b"three"


def receive_large(reader: FrameReader, body: bytes) -> bytearray:
    """Receive one large frame; the buffer it came to lie in."""
    data = len(body).to_bytes(4, "big") + body
    reader.receive(data[:64])
    assert reader.next_frame() is None
    reader.begin()
    at = 64
    while at < len(data):
        room = min(len(reader.buffer()), len(data) - at)
        reader.receive(data[at : at + room])
        at += room
    frame = reader.next_frame()
    assert frame is not None
    assert bytes(frame) == body
    buffer = reader.take_finished()
    assert buffer is not None
    assert reader.take_finished() is None
    return buffer


def test_a_buffer_that_was_given_back_serves_the_next_frame_that_fits() -> None:
    spare = SpareBuffer()
    one, other = (FrameReader(bytearray(64), LIMIT, spare) for _ in range(2))
    large = receive_large(one, b"a" * 900)
    spare.give(large)
    assert receive_large(other, b"b" * 500) is large
    assert receive_large(one, b"c" * 500) is not large
    spare.give(large)
    assert receive_large(one, b"d" * 901) is not large


def test_a_buffer_that_is_very_large_is_not_kept() -> None:
    spare = SpareBuffer()
    spare.give(bytearray(KEPT_BYTES + 1))
    assert spare.take(1) is None
    spare.give(bytearray(KEPT_BYTES))
    assert spare.take(KEPT_BYTES + 1) is None
    assert spare.take(1) is not None
    assert spare.take(1) is None
