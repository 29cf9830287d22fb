"""When this node is the active controller: it campaigns while there is none, and decides until it is deposed."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from levada.controller.decision import Defaults
from levada.metadata.door import Door, Token
from levada.node.controller_loop import ControllerLoop
from levada.node.metadata_tail import MetadataTail
from levada.world.background import OnFatal, cancel_and_wait, start
from levada.world.world import World

logger = logging.getLogger(__name__)

RETRY_SECONDS = 0.1
FAILED_SECONDS = 1.0


class Controllership:
    def __init__(
        self,
        world: World,
        door: Door,
        tail: MetadataTail,
        defaults: Callable[[], Defaults],
        session_timeout_ms: int,
        on_fatal: OnFatal,
    ) -> None:
        self._world = world
        self._door = door
        self._tail = tail
        self._defaults = defaults
        self._session_timeout_ms = session_timeout_ms
        self._on_fatal = on_fatal
        self._running: asyncio.Task[None] | None = None
        self.active: ControllerLoop | None = None
        """While this node decides."""

    async def begin(self) -> None:
        """Campaign now, and from now on whenever there is no controller; OSError if the first time fails."""
        token = await self._claim()
        # What the last epoch wrote counts now or never will.
        await self._tail.catch_up()
        if token is not None:
            self._activate(token)
        self._running = start("controller", self._run(), self._on_fatal)

    async def succeed_once(self) -> None:
        """Finish what a node may have left that died while it was elected, and decide nothing."""
        try:
            async with asyncio.timeout(RETRY_SECONDS):
                await self._until_vacant()
        except TimeoutError:
            # It lives, and is on its way.
            return
        if await self._claim() is not None:
            await self._door.resign()

    async def end(self) -> None:
        """Decide nothing any more, and let another controller begin at once."""
        running, self._running = self._running, None
        await cancel_and_wait(running)
        if self.active is None:
            return
        self.active = None
        try:
            await self._door.resign()
        except OSError as error:
            # Its session, or the age of its last heartbeat, will say the same.
            logger.warning("resigned unheard reason=%r", str(error))

    async def _run(self) -> None:
        """What was written by others before this node was elected is in the log to read."""
        while True:
            if self.active is not None:
                # Until it is deposed; a controller that is cancelled has yet to resign.
                await self.active.run()
                self.active = None
            token = None
            while token is None:
                await self._until_vacant()
                token = await self._campaign()
                if token is None:
                    await asyncio.sleep(RETRY_SECONDS)
            self._activate(token)

    async def _until_vacant(self) -> None:
        try:
            await self._door.vacancy()
        except OSError as error:
            logger.error("cannot see whether there is a controller, trying again reason=%r", str(error))

    async def _campaign(self) -> Token | None:
        try:
            token = await self._claim()
            # What the last epoch wrote counts now or never will.
            await self._tail.catch_up()
            return token
        except OSError as error:
            logger.error("cannot campaign, trying again reason=%r", str(error))
            # Each attempt on a full disk may leave a claim.
            await asyncio.sleep(FAILED_SECONDS)
            return None

    async def _claim(self) -> Token | None:
        """A claim that is half made keeps all from reading until the next one: it is finished even if cancelled."""
        claiming = asyncio.ensure_future(self._door.campaign())
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            with suppress(Exception):
                if await claiming is not None:
                    await self._door.resign()
            raise

    def _activate(self, token: Token) -> None:
        image, world = self._tail.image, self._world
        logger.info("controller epoch=%d offset=%d", token.epoch, image.offset)
        self.active = ControllerLoop(
            self._door, token, image, world.clock, world.entropy, self._defaults, self._session_timeout_ms
        )
