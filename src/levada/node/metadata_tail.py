"""Follows the metadata log and keeps the image of it."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from levada.metadata.delta import Delta
from levada.metadata.door import Door, MetadataBatch
from levada.metadata.image import Image
from levada.node.metadata_copy import MetadataCopy

logger = logging.getLogger(__name__)

WAIT_SECONDS = 1.0

Follower: TypeAlias = Callable[[Delta, Image], Awaitable[None]]


class MetadataTail:
    def __init__(self, door: Door, copy: MetadataCopy | None = None) -> None:
        """What is read goes into the copy, too, if there is one."""
        self._door = door
        self._copy = copy
        self._follower: Follower | None = None
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._reading = asyncio.Lock()
        self.image = Image()

    async def follow(self, follower: Follower, since: Image) -> None:
        """Tell of everything that has changed since an image, and that changes from now on."""
        async with self._reading:
            if self.image is not since:
                await follower(Delta.between(since, self.image), self.image)
            self._follower = follower

    async def catch_up(self) -> bool:
        """Read all there is; whether that is all that counts."""
        async with self._reading:
            changes = await self._door.read(self.image.offset)
            if changes.snapshot is not None:
                # The log no longer has what comes after our image.
                await self._go_on_with(Delta.between(self.image, changes.snapshot), changes.snapshot)
            if self._follower is None:
                self._load(changes.batches)
                return changes.is_whole
            for batch in changes.batches:
                delta = Delta(self.image).replay(batch.records)
                await self._go_on_with(delta, delta.image(batch.last_offset))
                if self._copy is not None:
                    self._copy.append(batch)
            return changes.is_whole

    def _load(self, batches: Sequence[MetadataBatch]) -> None:
        """With no follower to tell of each batch, many of them make one image."""
        delta = Delta(self.image)
        for batch in batches:
            delta.replay(batch.records)
        if batches:
            self._show(delta.image(batches[-1].last_offset))

    async def _go_on_with(self, delta: Delta, image: Image) -> None:
        if self._follower is not None:
            await self._follower(delta, image)
        self._show(image)

    def _show(self, image: Image) -> None:
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
                if self._copy is not None:
                    await self._copy.refresh(self.image)
                await when_caught_up(self.image)
            except OSError as error:
                logger.error("cannot read the metadata log, trying again reason=%r", str(error))

    async def reached(self, offset: int) -> None:
        """Return when the image is at an offset and the follower has taken it."""
        if self.image.offset < offset:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((offset, future))
            await future
