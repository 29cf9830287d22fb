"""Cuts a byte stream into frames: an int32 size, then that many bytes."""

from struct import Struct as Packed

from levada.model.buffers import SpareBuffer
from levada.records.kernel import unfilled

SCRATCH_SIZE = 64 * 1024
FRAME_OVERHEAD = 4
"""The size that stands before a frame."""
SMALLEST_STEP = 64 * 1024
AHEAD = 16
"""A size is only a claim: a new buffer is at most so many times what came with it, or the smallest step."""

POISON = 0xDD

_unpack_size = Packed(">i").unpack_from


LEEWAY = 8
"""Memory for an answer has an eighth more than it takes, so that it does for the next one too."""


class InvalidFrame(Exception):
    """A size that is negative or above the limit: the stream cannot be read on."""


class FrameReader:
    """Frames of one stream, read into memory that is not copied again.

    Small frames are views of `scratch`, which all connections of a loop share: a view is good until the reader is
    next used, and what is left of a frame at the end of a turn must be parked. A large frame gets a buffer of its own:
    its size is `announced`, and no more is read until `begin` is called.
    """

    __slots__ = (
        "_carry",
        "_eager_up_to",
        "_end",
        "_filled",
        "_finished",
        "_large",
        "_large_size",
        "_max_size",
        "_scratch",
        "_spare",
        "_start",
        "_view",
        "announced",
    )

    def __init__(
        self, scratch: bytearray, max_size: int, spare: SpareBuffer | None = None, *, eager_up_to: int = 0
    ) -> None:
        self._scratch = scratch
        self._spare = spare or SpareBuffer()
        self._view = memoryview(scratch)
        self._max_size = max_size
        self._eager_up_to = eager_up_to
        """Frames up to this size get all their memory at once."""
        self._carry = b""
        self._start = 0
        self._end = 0
        self._large: bytearray | None = None
        self._finished: bytearray | None = None
        self._large_size = 0
        self._filled = 0
        self.announced = 0

    def limit(self, max_size: int) -> None:
        """The largest frame from here on."""
        self._max_size = max_size

    def buffer(self) -> memoryview:
        """Where the next bytes of the stream go."""
        if self._large is not None:
            if self._filled == len(self._large):
                self._large.extend(bytes(min(len(self._large), self._large_size - self._filled)))
            return memoryview(self._large)[self._filled : self._large_size]
        if not self._carry:
            return self._view
        kept = len(self._carry)
        self._view[:kept] = self._carry
        return self._view[kept:]

    def received(self, count: int) -> None:
        """`count` bytes were written at the start of the last `buffer()`."""
        if self._large is not None:
            self._filled += count
            return
        self._start = 0
        self._end = len(self._carry) + count
        self._carry = b""

    def receive(self, data: bytes) -> None:
        """Take bytes from somewhere else; as many as fit."""
        target = self.buffer()
        assert len(data) <= len(target), "feed at most what buffer() has room for"
        target[: len(data)] = data
        self.received(len(data))

    def next_frame(self) -> memoryview | None:
        """The next whole frame, without its size; None when more bytes are needed, or a large frame was announced."""
        if self._large is not None:
            return self._finished_large()
        body = self._start + 4
        if body > self._end:
            return None
        (size,) = _unpack_size(self._scratch, self._start)
        if size < 0 or size > self._max_size:
            raise InvalidFrame(f"a frame of {size} bytes; at most {self._max_size} are allowed")
        stop: int = body + size
        if stop <= self._end:
            self._start = stop
            return self._view[body:stop]
        if size + FRAME_OVERHEAD > len(self._scratch):
            self.announced = size
        return None

    def begin(self) -> None:
        """Take memory for the frame that was announced, and receive it there."""
        size, self.announced = self.announced, 0
        start = self._view[self._start + 4 : self._end]
        self._large = self._spare.take(size) or self._new_buffer(size, len(start))
        self._large[: len(start)] = start
        self._large_size = size
        self._filled = len(start)
        self._start = self._end

    def _new_buffer(self, size: int, received: int) -> bytearray:
        if size <= self._eager_up_to:
            return unfilled(size + size // LEEWAY)
        return bytearray(min(size, max(SMALLEST_STEP, AHEAD * received)))

    def take_finished(self) -> bytearray | None:
        """The buffer of the last large frame, for a caller that knows that no views of it are left."""
        finished, self._finished = self._finished, None
        return finished

    def park(self) -> None:
        """Save what is left in the shared memory: another connection may be next to use it."""
        if self._start != self._end:
            self._carry = bytes(self._view[self._start : self._end])
        self._start = self._end = 0

    def unpark(self) -> None:
        """Bring parked bytes back, to look for frames among them without reading more."""
        if self._large is None:
            self._view[: len(self._carry)] = self._carry
            self.received(0)

    def _finished_large(self) -> memoryview | None:
        if self._large is None or self._filled < self._large_size:
            return None
        self._finished, self._large = self._large, None
        return memoryview(self._finished)[: self._large_size]
