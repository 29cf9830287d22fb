"""All doors of one node in one place."""

from dataclasses import dataclass

from levada.world.clock import Clock, Entropy, MachineClock
from levada.world.disk import AsyncDisk, Disk
from levada.world.net import Net
from levada.world.workers import Workers


@dataclass(frozen=True, slots=True)
class World:
    clock: MachineClock
    entropy: Entropy
    disk: Disk
    async_disk: AsyncDisk
    net: Net
    workers: Workers


@dataclass(frozen=True, slots=True)
class ClientWorld:
    """The doors that a client needs: it keeps no files."""

    clock: Clock
    entropy: Entropy
    net: Net
    is_real: bool = False
    """Whether a person may have mistyped an address, and waits; none does in a simulation."""
