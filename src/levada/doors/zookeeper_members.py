"""Who takes part in a coordinator in ZooKeeper: a node for each broker that goes with its session, in Kafka's JSON."""

import asyncio
import logging
from dataclasses import replace
from typing import Final

from levada.doors.zookeeper_layout import (
    BROKER_IDS,
    CONTROLLER,
    broker_path,
    decode_broker,
    decode_controller,
    encode_broker,
)
from levada.doors.zookeeper_session import RETRY_SECONDS, Create, Delete, Hint, LostReply, Set, ZooKeeperSession
from levada.metadata.door import AlreadyRegistered, Member
from levada.world.clock import Clock

logger = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.5
FRESH_SECONDS: Final = 1.0
"""How long the controller is taken for granted without a look; a watch tells sooner."""
EXPIRY_SHARE: Final = 1.5
"""Of a session timeout: the servers count in ticks, and give up a session at the next one."""


class ZooKeeperMembers:
    def __init__(self, session: ZooKeeperSession, clock: Clock, own: Member) -> None:
        self._session = session
        self._clock = clock
        self._own = own
        self._path = broker_path(own.node_id)
        self._session_id = 0
        """In which this broker takes part, 0 if it does not."""
        self._gone = Hint()
        self._controller_changed = Hint()
        self._controller: Member | None = None
        self._fresh_until = 0.0

    async def register(self) -> None:
        """Wait for the node of a predecessor that died a moment ago."""
        await self._take_part(self._session.timeout_s * EXPIRY_SHARE)

    async def announce(self, host: str, port: int) -> None:
        self._own = replace(self._own, host=host, port=port)
        await self._take_part(0.0)

    async def keep(self) -> None:
        """Take part again if the session in which this broker did has expired."""
        if self._session_id not in (0, self._session.session_id):
            await self._take_part(0.0)
            logger.warning("registered again id=%d session=0x%x", self._own.node_id, self._session_id)

    async def _take_part(self, patience_s: float) -> None:
        """Have a node of this session that says who and where this broker is; AlreadyRegistered if another's stays."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + patience_s
        data = encode_broker(self._own, self._clock.now_ms())
        while True:
            node = await self._session.get_synced(self._path, self._gone)
            try:
                if node is None:
                    await self._session.transact(Create(self._path, data, is_ephemeral=True))
                elif node.owner == self._session.session_id:
                    if node.data == data:
                        self._session_id = node.owner
                        return
                    await self._session.transact(Set(self._path, data, node.version))
                elif decode_broker(self._own.node_id, node.data).incarnation == self._own.incarnation:
                    # Of an older session of this very process.
                    create = Create(self._path, data, is_ephemeral=True)
                    await self._session.transact(Delete(self._path, node.version), create)
                elif loop.time() >= ends_at:
                    raise AlreadyRegistered(
                        f"a broker with id {self._own.node_id} is running on {self._session.where}; stop it or choose "
                        "another --node-id"
                    )
                else:
                    await self._gone.wait(min(POLL_SECONDS, max(ends_at - loop.time(), 0)))
            except LostReply:
                # What became of it is seen in the next round.
                await asyncio.sleep(RETRY_SECONDS)

    async def all(self) -> list[Member]:
        numbers = sorted(int(name) for name in await self._session.children(BROKER_IDS) if name.isdigit())
        nodes = await self._session.get_all([broker_path(number) for number in numbers])
        return [decode_broker(number, node.data) for number, node in zip(numbers, nodes) if node is not None]

    async def controller(self) -> Member | None:
        """The broker that holds `/controller`, if it takes part."""
        loop = asyncio.get_running_loop()
        if self._controller_changed.is_given or loop.time() >= self._fresh_until:
            self._controller_changed.take()
            self._controller = await self._look_for_controller()
            self._fresh_until = loop.time() + FRESH_SECONDS
        return self._controller

    async def _look_for_controller(self) -> Member | None:
        claim = await self._session.get(CONTROLLER, self._controller_changed)
        if claim is None:
            return None
        node_id, incarnation = decode_controller(claim.data)
        node = await self._session.get(broker_path(node_id), self._controller_changed)
        member = None if node is None else decode_broker(node_id, node.data)
        return member if member is not None and member.incarnation == incarnation else None
