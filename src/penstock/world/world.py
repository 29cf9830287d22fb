"""All doors of one node in one place."""

from dataclasses import dataclass

from penstock.world.clock import Clock, Entropy
from penstock.world.disk import AsyncDisk, Disk
from penstock.world.net import Net
from penstock.world.workers import Workers


@dataclass(frozen=True, slots=True)
class World:
    clock: Clock
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
