"""Time as clients spend it: a deadline for a call, and pauses that grow between attempts."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from levada.client.errors import Disconnected
from levada.world.clock import Clock, Entropy

T = TypeVar("T")

FOREVER_MS = 2**62
JITTER_PERCENT = 20


class Deadline:
    """When a call gives up; without a limit, never."""

    __slots__ = ("_at_ms", "_clock", "is_default", "timeout_ms")

    def __init__(self, clock: Clock, timeout_ms: float | None, *, is_default: bool = False) -> None:
        self._clock = clock
        self.is_default = is_default
        """Whether the limit is the default of a setting, which the user has not chosen."""
        self.timeout_ms = FOREVER_MS if timeout_ms is None else timeout_ms
        self._at_ms = clock.monotonic_ms() + self.timeout_ms

    def waited_ms(self) -> float:
        """Since the call began."""
        return self._clock.monotonic_ms() - self._at_ms + self.timeout_ms

    def remaining_ms(self) -> float:
        return max(self._at_ms - self._clock.monotonic_ms(), 0)

    @property
    def is_over(self) -> bool:
        return self._clock.monotonic_ms() >= self._at_ms


class Backoff:
    """Pauses that double from `first_ms` to `most_ms`, each up to a fifth longer or shorter than the rule says.

    Chance keeps clients that failed together from coming back together.
    """

    __slots__ = ("_entropy", "_first_ms", "_most_ms")

    def __init__(self, entropy: Entropy, first_ms: int, most_ms: int) -> None:
        self._entropy = entropy
        self._first_ms = first_ms
        self._most_ms = max(most_ms, first_ms)

    def pause_ms(self, failures: int) -> float:
        """How long to wait after so many failures in a row."""
        if failures <= 0 or self._first_ms == 0:
            return 0
        steady = self._first_ms << min(failures - 1, 30)
        jitter = (self._entropy.below(2 * JITTER_PERCENT * 10 + 1) - JITTER_PERCENT * 10) / 1_000
        return min(steady, self._most_ms) * (1 + jitter)


def background(coroutine: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
    """A task of the client's own; a user who closes the loop under an open client gets no message about it."""
    task = asyncio.get_running_loop().create_task(coroutine)
    # As asyncio's own helpers do: that user need not read that a task was destroyed while it was pending.
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    return task


async def shared(task: "asyncio.Task[T]") -> T:
    """What a task brings that several callers wait for; closing the client cancels the task, not its callers."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        waiting = asyncio.current_task()
        if task.cancelled() and waiting is not None and not waiting.cancelling():
            raise Disconnected("the connection was closed by this client") from None
        raise
