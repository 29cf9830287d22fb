"""Nodes on a real ZooKeeper: a door, and the image of all that was read through it.

As a program, `python -m tests.integration.zookeeper_nodes HOSTS CHROOT`, one that leads and writes a number every few
milliseconds, and prints each that counts, until it is deposed.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from itertools import count
from types import SimpleNamespace
from typing import Any, TypeAlias, cast

from levada.doors.zookeeper import ZooKeeperDoor
from levada.metadata.delta import apply
from levada.metadata.door import Deposed, Token
from levada.metadata.image import Image
from levada.metadata.records import ConfigRecord
from levada.world.real import RealClock, RealEntropy
from levada.world.world import World
from tests.zookeepers import ZooKeeperEnsemble, ZooKeeperServer

SESSION_MS = 2_000
WRITE_SECONDS = 0.005
_chroots = count(1)


class ZooKeeperNode:
    def __init__(
        self, hosts: str, chroot: str, node_id: int, incarnation: str = "", session_timeout_ms: int = SESSION_MS
    ) -> None:
        world = cast(World, SimpleNamespace(clock=RealClock(), entropy=RealEntropy()))
        incarnation = incarnation or f"life-{node_id}"
        self.door = ZooKeeperDoor(world, hosts, chroot, node_id, incarnation, session_timeout_ms)
        self.image = Image()
        self.token: Token | None = None
        self.next_offset = 0

    async def join(self) -> "ZooKeeperNode":
        await self.door.register()
        return self

    async def lead(self) -> "ZooKeeperNode":
        """Become the one who writes, once that may be, and read what was written before."""
        self.token = None
        while self.token is None:
            await self.door.vacancy()
            self.token = await self.door.campaign()
        await self.read()
        self.next_offset = self.image.offset + 1
        return self

    async def write(self, *values: str) -> None:
        assert self.token is not None
        records = [ConfigRecord(resource_type=2, resource_name="log", name=value, value="") for value in values]
        await self.door.append(self.token, self.next_offset, records)
        self.next_offset += len(values)

    async def read(self) -> list[str]:
        """What this node has read by now, in order."""
        changes = await self.door.read(self.image.offset)
        if changes.snapshot is not None:
            self.image = changes.snapshot
        for batch in changes.batches:
            assert batch.base_offset == self.image.offset + 1
            self.image = apply(self.image, batch.records, batch.last_offset)
        return self.seen

    @property
    def seen(self) -> list[str]:
        # Every value is a key of its own, so they stand there in the order in which they were written.
        return list(self.image.config_of(2, "log"))

    async def snapshot(self) -> None:
        await self.read()
        await self.door.write_snapshot(self.image)

    async def close(self) -> None:
        await self.door.close()


class Cluster:
    """A chroot of its own, and the nodes that meet there."""

    def __init__(self, ensemble: ZooKeeperEnsemble, endings: AsyncExitStack) -> None:
        self.ensemble = ensemble
        self.chroot = f"/tests/{next(_chroots)}"
        self._endings = endings

    def node(self, node_id: int = 1, incarnation: str = "", chroot: str | None = None) -> ZooKeeperNode:
        node = ZooKeeperNode(self.ensemble.hosts, self.chroot if chroot is None else chroot, node_id, incarnation)
        self._endings.push_async_callback(node.close)
        return node

    async def reader(self) -> list[str]:
        """What a reader sees that comes now and does not take part."""
        return await self.node(99).read()

    def server_of(self, node: ZooKeeperNode) -> ZooKeeperServer:
        """The one that a node is connected to."""
        port = node.door.session._kazoo._connection._socket.getpeername()[1]
        return next(server for server in self.ensemble.servers if server.port == port)


Run: TypeAlias = Callable[[Callable[[Cluster], Coroutine[Any, Any, None]]], None]
"""Runs a test in a loop, with a cluster of its own."""


async def _write_on(hosts: str, chroot: str) -> None:
    node = await (await ZooKeeperNode(hosts, chroot, 1).join()).lead()
    number = 0
    try:
        while True:
            await node.write(f"zombie-{number}")
            print(number, flush=True)
            number += 1
            await asyncio.sleep(WRITE_SECONDS)
    except Deposed:
        print("deposed", flush=True)
    await node.close()


if __name__ == "__main__":
    asyncio.run(_write_on(*sys.argv[1:]))
