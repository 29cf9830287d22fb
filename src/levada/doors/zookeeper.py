"""The coordinator in ZooKeeper: for the brokers of many machines.

A node that wants to write makes `/controller`, which goes with its session, and counts `/controller_epoch` up, in one
transaction. Every write of a controller is a transaction that asks for the version it gave `/controller_epoch`: once
another node has claimed, nothing of the old one is written any more, whatever it thinks of its session, however long it
was paused, and whenever its requests arrive. The session says only when another node may claim.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from levada.doors.zookeeper_claim import Claim
from levada.doors.zookeeper_layout import (
    CLUSTER_ID,
    CONTROLLER,
    CONTROLLER_EPOCH,
    HEAD,
    PERSISTENT,
    decode_cluster_id,
    decode_controller,
    encode_cluster_id,
    encode_controller,
)
from levada.doors.zookeeper_log import ZooKeeperLog
from levada.doors.zookeeper_members import ZooKeeperMembers
from levada.doors.zookeeper_session import (
    RETRY_SECONDS,
    Create,
    Delete,
    Hint,
    LostReply,
    Node,
    Operation,
    Set,
    ZooKeeperSession,
)
from levada.doors.zookeeper_snapshots import ZooKeeperSnapshots
from levada.metadata.door import Changes, Deposed, DoorError, Member, Token
from levada.metadata.image import Image
from levada.metadata.records import MetadataRecord
from levada.world.world import World

logger = logging.getLogger(__name__)

CONNECT_SECONDS: Final = 18.0
"""As long as Kafka waited, `zookeeper.connection.timeout.ms`."""
POLL_SECONDS: Final = 0.5
RESIGN_SECONDS: Final = 2.0


class ZooKeeperDoor:
    """Made within the loop that uses it; it connects with the first call."""

    def __init__(
        self, world: World, hosts: str, chroot: str, node_id: int, incarnation: str, session_timeout_ms: int
    ) -> None:
        self._clock = world.clock
        self._node_id = node_id
        self._incarnation = incarnation
        self.session: Final = ZooKeeperSession(hosts, chroot, session_timeout_ms)
        self._members = ZooKeeperMembers(self.session, world.clock, Member(node_id, incarnation))
        self._snapshots = ZooKeeperSnapshots(self.session)
        self._log = ZooKeeperLog(self.session, self._snapshots, world.entropy)
        self._opening = asyncio.Lock()
        self._is_open = False
        self._vacancy = Hint()
        self.claim: Claim | None = None
        """While this node may write, as far as it knows."""

    async def _open(self) -> None:
        """Connect, and make what a new cluster needs; DoorError where another program's data is."""
        async with self._opening:
            if self._is_open:
                return
            await self.session.open(CONNECT_SECONDS)
            await self.session.make_root()
            is_used = await self.session.exists(CONTROLLER_EPOCH)
            if is_used and not await self.session.exists(HEAD):
                raise DoorError(
                    f"ZooKeeper at {self.session.where} holds the data of an Apache Kafka cluster; give this one a "
                    "path of its own, as in zookeeper://host:2181/levada"
                )
            for path, data in PERSISTENT.items():
                if not await self.session.exists(path):
                    await self.session.create(path, data)
            self._is_open = True

    async def cluster_id(self, proposal: str | None) -> str | None:
        await self._open()
        if proposal is not None and await self.session.create(CLUSTER_ID, encode_cluster_id(proposal)):
            return proposal
        node = await self.session.get_synced(CLUSTER_ID)
        if node is None and proposal is None:
            return None
        known = decode_cluster_id(node.data) if node is not None else ""
        if not known:
            raise DoorError(f"{CLUSTER_ID} in ZooKeeper at {self.session.where} is damaged: restore it from a copy")
        return known

    # Members

    async def register(self) -> None:
        await self._open()
        await self._members.register()

    async def announce(self, host: str, port: int) -> None:
        await self._members.announce(host, port)

    async def members(self) -> list[Member]:
        await self._open()
        return await self._members.all()

    async def beat(self) -> None:
        # The session says that this node lives; only what went with one that has expired is made again.
        await self._members.keep()

    # Electing

    async def controller(self) -> Member | None:
        await self._open()
        return await self._members.controller()

    async def vacancy(self) -> None:
        await self._open()
        while True:
            self._vacancy.take()
            node = await self.session.get(CONTROLLER, self._vacancy)
            if node is None or node.owner == self.session.session_id:
                return
            await self._vacancy.wait(POLL_SECONDS)

    async def campaign(self) -> Token | None:
        await self._open()
        self.claim = None
        await self._members.keep()
        holder = await self.session.get_synced(CONTROLLER)
        if holder is not None and holder.owner != self.session.session_id:
            return None
        node = _there(await self.session.get_synced(CONTROLLER_EPOCH), CONTROLLER_EPOCH)
        epoch = _number(node, CONTROLLER_EPOCH) + 1
        own = encode_controller(self._node_id, self._incarnation, self._clock.now_ms())
        operations: list[Operation] = [
            Create(CONTROLLER, own, is_ephemeral=True),
            Set(CONTROLLER_EPOCH, str(epoch).encode(), node.version),
        ]
        if holder is not None:
            # Of a claim whose answer was lost, or that was given up.
            operations.insert(0, Delete(CONTROLLER, holder.version))
        if await self.session.transact(*operations) is not None:
            return None
        # No other epoch can write any more, so this is where the log ends.
        claimed, head = await asyncio.gather(self.session.get(CONTROLLER), self.session.get_synced(HEAD))
        if claimed is None or decode_controller(claimed.data) != (self._node_id, self._incarnation):
            return None
        head = _there(head, HEAD)
        self.claim = Claim(epoch, node.version + 1, claimed.owner, head.version, _number(head, HEAD))
        return Token(epoch)

    async def confirm(self, token: Token) -> None:
        claim = self._claim_of(token)
        if not await self.session.holds(claim.check):
            self.claim = None
            raise claim.is_over
        self._claim_of(token)

    async def resign(self) -> None:
        claim, self.claim = self.claim, None
        if claim is None:
            return
        try:
            async with asyncio.timeout(RESIGN_SECONDS):
                while True:
                    with suppress(LostReply):
                        await self.session.transact(claim.check, Delete(CONTROLLER))
                        return
                    await asyncio.sleep(RETRY_SECONDS)
        except OSError as error:
            # It goes with the session.
            logger.warning("resigned without ZooKeeper epoch=%d reason=%r", claim.epoch, str(error) or "no answer")

    def _claim_of(self, token: Token) -> Claim:
        claim = self.claim
        if claim is None or claim.epoch != token.epoch:
            raise Deposed(f"epoch {token.epoch} is over")
        if self.session.session_id != claim.session_id:
            self.claim = None
            raise Deposed(f"the session of epoch {token.epoch} has expired")
        return claim

    # The log

    async def append(self, token: Token, expected_offset: int, records: Sequence[MetadataRecord]) -> None:
        claim = self._claim_of(token)
        try:
            await self._log.append(claim, expected_offset, records)
        except (Deposed, asyncio.CancelledError):
            # Cancelled half way, this node does not know where the log ends.
            if self.claim is claim:
                self.claim = None
            raise

    async def read(self, after_offset: int) -> Changes:
        await self._open()
        return await self._log.read(after_offset)

    async def wait(self, seconds: float) -> None:
        await self._log.changed.wait(seconds)

    def wants_snapshot(self, max_bytes: int) -> bool:
        return self.claim is not None and self._log.wants_snapshot(max_bytes)

    async def write_snapshot(self, image: Image) -> None:
        place, claim = self._log.place, self.claim
        if claim is None or place is None or place.next_offset != image.offset + 1:
            return
        try:
            await self._snapshots.write(claim, image, place)
        except Deposed:
            # Its successor writes one.
            return
        self._log.snapshot_was_written()

    async def close(self) -> None:
        self.claim = None
        await self.session.close()


def _there(node: Node | None, path: str) -> Node:
    if node is None:
        raise DoorError(f"{path} in ZooKeeper is missing: it was lost, restore it from a copy")
    return node


def _number(node: Node, path: str) -> int:
    try:
        return int(node.data)
    except ValueError:
        raise DoorError(f"{path} in ZooKeeper is damaged: restore it from a copy") from None
