"""Two ways to ask a broker: until there is an answer, and once."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TypeVar

from levada.net.channel import Channel, ChannelClosed
from levada.protocol.declare import Request
from levada.world.world import World

T = TypeVar("T")

RETRY_SECONDS = 0.05
CALL_SECONDS = 2.0


class Caller:
    """Asks once: a caller without an answer does not know whether the broker carried out what it asked for.

    Of several brokers it asks another from then on.
    """

    def __init__(self, world: World, host: str, port: int, others: Sequence[tuple[str, int]] = ()) -> None:
        self._world = world
        self._addresses = deque([(host, port), *others])
        self._channel: Channel | None = None

    async def ask(self, request: Request[T], version: int, seconds: float = CALL_SECONDS) -> T | None:
        """The answer, or None; waits for the broker to be there."""
        while self._channel is None:
            try:
                async with asyncio.timeout(CALL_SECONDS):
                    self._channel = await Channel.connect(self._world.net, *self._addresses[0])
            except (OSError, TimeoutError):
                self._addresses.rotate(-1)
                await asyncio.sleep(RETRY_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                return await self._channel.call(request, version)
        except (OSError, ChannelClosed, TimeoutError):
            self.move_on()
            return None

    def move_on(self) -> None:
        """Ask the next broker from now on."""
        self.close()
        self._addresses.rotate(-1)

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None


class Connector:
    """Asks until there is an answer."""

    def __init__(self, world: World, host: str, port: int) -> None:
        self._caller = Caller(world, host, port)

    async def call(self, request: Request[T], version: int) -> T:
        """What had no answer may have been carried out."""
        while True:
            reply = await self._caller.ask(request, version)
            if reply is not None:
                return reply
            await asyncio.sleep(RETRY_SECONDS)

    def close(self) -> None:
        self._caller.close()
