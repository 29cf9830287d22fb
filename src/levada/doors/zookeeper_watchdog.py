"""Closes a ZooKeeper session whose event loop stands still: kazoo's own threads would keep a hung broker alive."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Final

LOOKS_PER_TIMEOUT: Final = 10


class LoopWatchdog:
    """A thread that counts how long the loop has not turned, as far as it was there itself to see it."""

    def __init__(
        self, timeout_ms: int, close: Callable[[], None], has_ended: Callable[[], bool], reopen: Callable[[], None]
    ) -> None:
        self._timeout_s = timeout_ms / 1000
        self._interval_s = self._timeout_s / LOOKS_PER_TIMEOUT
        self._close = close
        self._has_ended = has_ended
        """Whether kazoo has given up by itself, over an error of its own."""
        self._reopen = reopen
        """Like the others it may block, and is called from the thread."""
        self._turns = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = threading.Event()

    def start(self) -> None:
        """From within the loop."""
        self._tick()
        threading.Thread(target=self._look_on, name="levada-zookeeper-watchdog", daemon=True).start()

    def stop(self) -> None:
        self._is_over.set()
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        self._turns += 1
        self._timer = asyncio.get_running_loop().call_later(self._interval_s, self._tick)

    def _look_on(self) -> None:
        seen, still_s, is_closed = -1, 0.0, False
        looked = time.monotonic()
        while not self._is_over.wait(self._interval_s):
            now = time.monotonic()
            # While the whole process stood still, the loop had no chance to turn; the server judges that.
            still_s += min(now - looked, 2 * self._interval_s)
            looked = now
            if self._turns != seen:
                seen, still_s = self._turns, 0.0
                if is_closed or self._has_ended():
                    self._reopen()
                    is_closed = False
            elif still_s >= self._timeout_s and not is_closed:
                self._close()
                is_closed = True
