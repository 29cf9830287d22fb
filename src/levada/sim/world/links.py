"""The way of bytes from one simulated host to another: how long it takes, and whether it is cut."""

import random
from dataclasses import dataclass
from typing import Final

LATENCY_US: Final = (50, 2_000)
LOOPBACK_LATENCY_US: Final = (5, 50)


@dataclass(slots=True, eq=False)
class Link:
    """One direction between two hosts, shared by all their connections."""

    chance: random.Random
    latency_us: tuple[int, int]
    bytes_per_second: int | None = None
    blocked: bool = False
    busy_until_ns: int = 0

    def latency_ns(self) -> int:
        return self.chance.randint(*self.latency_us) * 1_000

    def arrival_ns(self, now_ns: int, size: int) -> int:
        """When `size` bytes sent now are there; a narrow link sends one thing after the other."""
        if self.bytes_per_second is not None:
            self.busy_until_ns = max(self.busy_until_ns, now_ns) + size * 1_000_000_000 // self.bytes_per_second
            now_ns = self.busy_until_ns
        return now_ns + self.latency_ns()


def chunk_size(available: int, chance: random.Random) -> int:
    """How many bytes travel together: often all, sometimes a few, so that every boundary is hit some day."""
    draw = chance.random()
    if draw < 0.6:
        return available
    if draw < 0.8:
        return chance.randint(1, min(available, 16))
    return chance.randint(1, available)
