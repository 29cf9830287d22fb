"""Deadlines by key, cheap to move back, as every heartbeat does."""

from heapq import heappop, heappush
from typing import Generic, Protocol, TypeVar

Key = TypeVar("Key")
Key_contra = TypeVar("Key_contra", contravariant=True)


class Deadlines(Protocol[Key_contra]):
    """What a part of a coordinator needs of the timers of all its parts: to set and cancel its own."""

    def set(self, key: Key_contra, deadline_ms: int) -> None: ...

    def cancel(self, key: Key_contra) -> None: ...


class Timers(Generic[Key]):
    """A heap whose entries are corrected only when they come up; equal deadlines come in the order they were set."""

    def __init__(self) -> None:
        self._deadlines: dict[Key, int] = {}
        self._heap: list[tuple[int, int, Key]] = []
        self._queued_ms: dict[Key, int] = {}
        """The one entry of the heap that counts for a key; it is never later than the key's deadline."""
        self._pushes = 0

    def set(self, key: Key, deadline_ms: int) -> None:
        """Set or move a key's deadline."""
        self._deadlines[key] = deadline_ms
        queued_ms = self._queued_ms.get(key)
        if queued_ms is None or deadline_ms < queued_ms:
            self._push(key, deadline_ms)

    def cancel(self, key: Key) -> None:
        self._deadlines.pop(key, None)

    def deadline_ms(self) -> int | None:
        """The nearest deadline."""
        heap = self._heap
        while heap:
            queued_ms, _, key = heap[0]
            deadline_ms = self._deadlines.get(key)
            if queued_ms == deadline_ms:
                return deadline_ms
            heappop(heap)
            if self._queued_ms.get(key) == queued_ms:
                del self._queued_ms[key]
                if deadline_ms is not None:
                    self._push(key, deadline_ms)
        return None

    def pop_due(self, now_ms: int) -> Key | None:
        """Take the first key whose deadline has come."""
        deadline_ms = self.deadline_ms()
        if deadline_ms is None or deadline_ms > now_ms:
            return None
        _, _, key = heappop(self._heap)
        del self._deadlines[key]
        self._queued_ms.pop(key, None)
        return key

    def _push(self, key: Key, deadline_ms: int) -> None:
        self._pushes += 1
        self._queued_ms[key] = deadline_ms
        heappush(self._heap, (deadline_ms, self._pushes, key))
