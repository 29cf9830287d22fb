"""Bytes that pass through without being copied, and memory that is used again for them."""

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

KEPT_BYTES = 2 * 1024 * 1024
"""A larger buffer is not kept for the next frame."""
LENT_BUFFERS = 4
"""One that is read, one that is filled, and those in between."""
LENT_BYTES = 32 * 1024 * 1024
"""What is lent may be kept longer than it has views, up to here."""


def has_views(memory: bytearray) -> bool:
    """Whether a view of it is left, so that it must not be filled anew."""
    try:
        # Refused while there are views, as its memory could move; nothing moves where the size stays.
        memory.append(memory.pop())
    except BufferError:
        return True
    except IndexError:
        return False
    return False


class SpareBuffer:
    """A buffer that no frame uses now, for the next large one of any stream: new memory costs time to fill."""

    def __init__(self) -> None:
        self._buffer: bytearray | None = None

    def take(self, size: int) -> bytearray | None:
        buffer = self._buffer
        if buffer is None or len(buffer) < size:
            return None
        self._buffer = None
        return buffer

    def give(self, buffer: bytearray) -> None:
        if len(buffer) <= KEPT_BYTES:
            self._buffer = buffer


class LentBuffers(SpareBuffer):
    """Buffers whose frames were handed on: each is free for another frame once no view of it is left."""

    def __init__(self) -> None:
        super().__init__()
        self._lent: list[bytearray] = []
        """The last that was lent comes last."""

    def take(self, size: int) -> bytearray | None:
        for index, buffer in enumerate(self._lent):
            if len(buffer) >= size and not has_views(buffer):
                return self._lent.pop(index)
        return None

    def borrow(self, size: int) -> bytearray:
        """Memory of any content that is free again once no view of it is left."""
        for buffer in self._lent:
            if len(buffer) >= size and not has_views(buffer):
                return buffer
        buffer = bytearray(size)
        self.give(buffer)
        return buffer

    def give(self, buffer: bytearray) -> None:
        if len(buffer) > LENT_BYTES:
            return
        self._lent.append(buffer)
        while len(self._lent) > LENT_BUFFERS or sum(map(len, self._lent)) > LENT_BYTES:
            self._lent.pop(0)
