"""What requests in progress may hold in memory together: `queued.max.request.bytes`."""

from typing import Protocol

UNLIMITED = -1


class MemoryWaiter(Protocol):
    def on_memory(self, size: int) -> None:
        """The memory that was asked for is yours; called in the middle of another's turn."""
        ...


class RequestMemory:
    """Counts frames that have a buffer of their own, from their first bytes until their request is done.

    As in Apache's pool, a frame may begin while anything is left, and is then counted with its whole size: the pool
    can go below zero by one frame, and no frame is too large for it. Small frames live in memory that all share, hold
    nothing, and never wait: the fetches that let a parked produce request finish are among them.
    """

    def __init__(self, limit: int = UNLIMITED) -> None:
        self.limit = limit
        self.used = 0
        self._waiting: dict[MemoryWaiter, int] = {}

    @property
    def available(self) -> int:
        """Below zero when the last frame took more than there was. Without a limit, or with 0, there is no end."""
        return 2**63 - 1 if self.limit <= 0 else self.limit - self.used

    @property
    def waiting(self) -> int:
        """How many connections wait."""
        return len(self._waiting)

    def take(self, size: int, waiter: MemoryWaiter) -> bool:
        """Whether the memory is the waiter's now; if not, it hears when its turn has come."""
        if self.available <= 0:
            # While a connection waits, nothing is available: no newcomer overtakes.
            self._waiting[waiter] = size
            return False
        self.used += size
        return True

    def release(self, size: int) -> None:
        self.used -= size
        assert self.used >= 0, "memory was released twice"
        while self._waiting and self.available > 0:
            waiter = next(iter(self._waiting))
            size = self._waiting.pop(waiter)
            # Now and not when the waiter runs, so that no other takes it in between.
            self.used += size
            waiter.on_memory(size)

    def forget(self, waiter: MemoryWaiter) -> None:
        """The waiter has left."""
        self._waiting.pop(waiter, None)
