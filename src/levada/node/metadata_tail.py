"""Follows the metadata log and keeps the image of it."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from levada.metadata.delta import Delta
from levada.metadata.door import Door, DoorError
from levada.metadata.image import Image

logger = logging.getLogger(__name__)

WAIT_SECONDS = 1.0


class MetadataTail:
    def __init__(self, door: Door) -> None:
        self._door = door
        self._follow: Callable[[Delta, Image], Awaitable[None]] | None = None
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._reading = asyncio.Lock()
        self.image = Image()

    async def load(self) -> None:
        """Read all there is, before `follow` has named a follower."""
        changes = await self._door.read(-1)
        image = changes.snapshot or Image()
        delta = Delta(image)
        for batch in changes.batches:
            delta.replay(batch.records)
        self.image = delta.image(changes.batches[-1].last_offset) if changes.batches else image

    def follow(self, follower: Callable[[Delta, Image], Awaitable[None]]) -> None:
        """Tell of everything that changes from now on."""
        self._follow = follower

    async def catch_up(self) -> None:
        async with self._reading:
            await self._catch_up()

    async def _catch_up(self) -> None:
        changes = await self._door.read(self.image.offset)
        if changes.snapshot is not None:
            raise DoorError("this node fell behind the metadata log; restart it")
        for batch in changes.batches:
            delta = Delta(self.image).replay(batch.records)
            image = delta.image(batch.last_offset)
            if self._follow is not None:
                await self._follow(delta, image)
            self.image = image
            while self._waiting and self._waiting[0][0] <= image.offset:
                _, reached = self._waiting.popleft()
                if not reached.done():
                    reached.set_result(None)

    async def run(self, when_caught_up: Callable[[Image], Awaitable[None]]) -> None:
        """Until cancelled."""
        while True:
            await self._door.wait(WAIT_SECONDS)
            try:
                await self.catch_up()
                await when_caught_up(self.image)
            except OSError as error:
                logger.error("cannot read the metadata log, trying again reason=%r", str(error))

    async def reached(self, offset: int) -> None:
        """Return when the image is at an offset and the follower has taken it."""
        if self.image.offset < offset:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((offset, future))
            await future
