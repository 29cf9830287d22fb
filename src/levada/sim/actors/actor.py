"""One simulated process that uses the broker, as a scenario sees it."""

import asyncio
import random
from abc import ABC, abstractmethod


class Actor(ABC):
    """From its start to its end. It obeys `must_stop` and `pause_seconds`, and says in `is_over` that it has ended."""

    def __init__(self, name: str, chance: random.Random) -> None:
        self.name = name
        """Of this process; the next one on its host has another."""
        self.chance = chance
        self.must_stop = False
        self.is_over = False
        self.pause_seconds = 0.0
        """For how long it is to stand still; 0 again when it has begun to, or has done so."""

    @abstractmethod
    async def run(self) -> None:
        """Live until it is told to stop, or cannot go on; `is_over` is True then."""

    def die(self) -> None:
        """It was killed: nothing of it runs any more."""
        self.is_over = True

    @property
    def now_s(self) -> float:
        return asyncio.get_running_loop().time()
