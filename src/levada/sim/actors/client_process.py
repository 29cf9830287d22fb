"""What all simulated processes with a client in them have in common."""

import asyncio
import random
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from levada.sim.actors.actor import Actor
from levada.sim.checkers import CheckFailed
from levada.sim.world.incarnation import CURRENT
from levada.world.world import ClientWorld, World

BOOTSTRAP = "broker:9092"
CLOSE_SECONDS = (0.0, 1.0, 5.0)
CLOSE_SLACK_SECONDS = 0.1
TURNS_TO_END = 10
"""A task that was cancelled needs a few to be over."""

NETWORK_OPTIONS: dict[str, Any] = {
    "request.timeout.ms": 1_200,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 200,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 200,
    "socket.connection.setup.timeout.ms": 800,
    "socket.connection.setup.timeout.max.ms": 1_500,
    "metadata.max.age.ms": 10_000,
}


class ClientProcess(Actor):
    """One process with a client, which must keep to its times and leave nothing behind."""

    def __init__(self, name: str, world: World, chance: random.Random) -> None:
        super().__init__(name, chance)
        self.world = ClientWorld(world.clock, world.entropy, world.net)
        self.listening_s = 0.0
        """What a rebalance listener took of the call under way."""
        self.before_answer: Callable[[], None] = lambda: None
        """Called when an answer is on its way whose loss would do most."""

    async def run(self) -> None:
        await self.live()
        await self._check_tasks()
        self.is_over = True

    @abstractmethod
    async def live(self) -> None: ...

    async def close(self, client: Any, seconds: float | None = None) -> None:
        """Close a client, and see that it keeps to its time, but for what its listener takes."""
        seconds = self.chance.choice(CLOSE_SECONDS) if seconds is None else seconds
        began_s, self.listening_s = self.now_s, 0.0
        await client.close(timeout=seconds)
        took_s = self.now_s - began_s - self.listening_s
        if took_s > seconds + CLOSE_SLACK_SECONDS:
            raise CheckFailed(f"{self.name}: close({seconds}) of {type(client).__name__} took {took_s:.3f} s")

    async def stand_still(self) -> None:
        """The user's code computes, or waits for something else."""
        if self.pause_seconds:
            await asyncio.sleep(self.pause_seconds)
            self.pause_seconds = 0.0

    async def _check_tasks(self) -> None:
        """Closed clients leave nothing behind that runs."""
        for _ in range(TURNS_TO_END):
            await asyncio.sleep(0)
        mine, current = CURRENT.get(), asyncio.current_task()
        left = sorted(
            repr(task)
            for task in asyncio.all_tasks()
            if getattr(task, "incarnation", None) is mine and task is not current
        )
        if left:
            raise CheckFailed(f"{self.name} is closed, and its tasks go on: {left}")
