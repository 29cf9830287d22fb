"""Which search by time goes on, and for how long before other requests have their turn."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from levada.world.clock import Clock
from levada.world.workers import Workers

LONGEST_TURN_NS: Final = 5_000_000

T = TypeVar("T")


class SearchTurns:
    """Searches go on one at a time, and all of them together for so long until others have had a turn.

    If each had a time of its own, a client that asks for many at once would have all of theirs before any other request
    is looked at.
    """

    def __init__(self, clock: Clock, workers: Workers) -> None:
        self._clock = clock
        self._workers = workers
        self._going_on = asyncio.Lock()
        self._computing = asyncio.Lock()
        self._ends_ns = 0

    async def __aenter__(self) -> None:
        await self._going_on.acquire()
        if self.is_over:
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                self._going_on.release()
                raise
            self._ends_ns = self._clock.perf_ns() + LONGEST_TURN_NS

    async def __aexit__(self, *error: object) -> None:
        self._going_on.release()

    @property
    def is_over(self) -> bool:
        return self._clock.perf_ns() >= self._ends_ns

    async def compute(self, call: Callable[[], T]) -> T:
        """Make a call that takes long, between two turns.

        One at a time: producers whose batches must be opened wait in the same queue, and not behind all searches.
        """
        async with self._computing:
            return await self._workers.compute(call)
