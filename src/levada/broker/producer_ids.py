"""Ids for idempotent producers: blocks come from the controller, and no id is ever given twice."""

import asyncio
from collections.abc import Awaitable, Callable

from levada.model.error_codes import ErrorCode
from levada.model.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable
from levada.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse


class ProducerIds:
    """A crash loses at most the rest of a block."""

    def __init__(self, ask_for_block: Callable[[], Awaitable[AllocateProducerIdsResponse]]) -> None:
        self._ask_for_block = ask_for_block
        self._next = self._end = 0
        self._allocation_lock: asyncio.Lock | None = None
        self._returned: int | None = None
        """Allocated, and not used."""

    async def allocate(self) -> int:
        """The next id; ApiError while the controller cannot be reached."""
        if self._allocation_lock is None:
            self._allocation_lock = asyncio.Lock()
        # One asks, the others wait for its block.
        async with self._allocation_lock:
            if self._next == self._end:
                block = await self._ask_for_block()
                if block.error_code != ErrorCode.NONE:
                    raise CoordinatorNotAvailable(f"no producer ids from the controller: {block.error_code}")
                self._next = block.producer_id_start
                self._end = self._next + block.producer_id_len
            return self._take()

    @property
    def has_one(self) -> bool:
        """Whether one is at hand."""
        return self._returned is not None or self._next != self._end

    async def reserve(self) -> None:
        """See to it that one is at hand."""
        if not self.has_one:
            self._returned = await self.allocate()

    def at_hand(self) -> int:
        """The next id, if the controller need not be asked for it."""
        if self._returned is not None:
            returned, self._returned = self._returned, None
            return returned
        if self._next == self._end:
            raise CoordinatorLoadInProgress("no producer id is at hand")
        return self._take()

    def _take(self) -> int:
        self._next += 1
        return self._next - 1
