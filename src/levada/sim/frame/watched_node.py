"""A node whose way to the coordinator is watched: its rights, batches and images are compared with the others'."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from levada.broker.broker import Broker
from levada.broker.settings import BrokerIdentity
from levada.metadata.door import Changes, Door, Member, MetadataBatch, Token
from levada.metadata.image import Image
from levada.metadata.records import MetadataRecord
from levada.node import Node
from levada.node.coordinator import Coordinator
from levada.node.membership import ClusterMembership
from levada.node.metadata_tail import MetadataTail
from levada.node.settings import NodeSettings
from levada.sim.checkers.metadata_ledger import MetadataLedger
from levada.world.world import World


class WatchedDoor:
    """Passes all on, and tells the ledger."""

    def __init__(self, door: Door, process: str, ledger: MetadataLedger, on_change: Callable[[], None]) -> None:
        self._door = door
        self._process = process
        self._ledger = ledger
        self._on_change = on_change

    async def cluster_id(self, proposal: str | None) -> str | None:
        return await self._door.cluster_id(proposal)

    async def register(self) -> None:
        await self._door.register()

    async def announce(self, host: str, port: int) -> None:
        await self._door.announce(host, port)

    async def members(self) -> list[Member]:
        return await self._door.members()

    async def beat(self) -> None:
        await self._door.beat()

    async def vacancy(self) -> None:
        await self._door.vacancy()

    async def campaign(self) -> Token | None:
        token = await self._door.campaign()
        if token is not None:
            self._ledger.elect(self._process, token.epoch)
        return token

    async def confirm(self, token: Token) -> None:
        newest = self._ledger.newest_epoch
        await self._door.confirm(token)
        self._ledger.check_right(self._process, token.epoch, newest)

    async def resign(self) -> None:
        await self._door.resign()

    async def controller(self) -> Member | None:
        return await self._door.controller()

    async def append(self, token: Token, expected_offset: int, records: Sequence[MetadataRecord]) -> None:
        await self._door.append(token, expected_offset, records)
        self._ledger.acknowledge(self._process, MetadataBatch(token.epoch, expected_offset, tuple(records)))
        self._on_change()

    async def read(self, after_offset: int) -> Changes:
        changes = await self._door.read(after_offset)
        if changes.snapshot is not None:
            self._ledger.check_image(self._process, changes.snapshot)
        news = [self._ledger.learn(self._process, batch) for batch in changes.batches]
        if any(news):
            self._on_change()
        return changes

    async def wait(self, seconds: float) -> None:
        await self._door.wait(seconds)

    def wants_snapshot(self, max_bytes: int) -> bool:
        return self._door.wants_snapshot(max_bytes)

    async def write_snapshot(self, image: Image) -> None:
        self._ledger.check_image(self._process, image)
        await self._door.write_snapshot(image)

    async def close(self) -> None:
        await self._door.close()


class WatchedNode(Node):
    def __init__(
        self, world: World, settings: NodeSettings, process: str, ledger: MetadataLedger, on_change: Callable[[], None]
    ) -> None:
        super().__init__(world, settings)
        self.process = process
        self.membership: ClusterMembership | None = None
        self.broker: Broker | None = None
        self._ledger = ledger
        self._on_change = on_change

    @property
    def is_up(self) -> bool:
        return self._parts is not None

    def check_lease(self) -> None:
        """A broker that was fenced, so that others may do what it did, must not think that it cannot have been.

        No delay is allowed for. The controller that fences it has heard nothing of it for a session, or began so long
        ago; a lease ends a session after the heartbeat was sent, which its controller has acknowledged before it was
        deposed. So it is over when any controller decides to fence.
        """
        membership, broker = self.membership, self.broker
        if membership is None or broker is None or not membership.has_lease:
            return
        known = self._ledger.image.brokers.get(broker.identity.node_id)
        if known is None or known.epoch != broker.epoch or known.is_fenced:
            standing = "unknown" if known is None else f"of epoch {known.epoch}, fenced={known.is_fenced}"
            self._ledger.fail(f"{self.process}, of epoch {broker.epoch}, has a lease, but is {standing}")

    def _open_coordinator(self, incarnation: bytes) -> Coordinator:
        coordinator = super()._open_coordinator(incarnation)
        return replace(coordinator, door=WatchedDoor(coordinator.door, self.process, self._ledger, self._on_change))

    def _membership(self, door: Door, tail: MetadataTail, incarnation: bytes) -> ClusterMembership:
        self.membership = super()._membership(door, tail, incarnation)
        return self.membership

    def _make_broker(self, identity: BrokerIdentity, membership: ClusterMembership) -> Broker:
        self.broker = super()._make_broker(identity, membership)
        return self.broker
