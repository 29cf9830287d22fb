"""This node's part in its cluster: it campaigns, registers, says that it lives, and asks the controller."""

import asyncio
import logging
from typing import TypeVar

from levada.broker.broker import Broker
from levada.broker.features import FEATURES
from levada.controller.decision import Defaults
from levada.metadata.door import Door, DoorError, Token
from levada.metadata.image import Image
from levada.model.error_codes import ErrorCode
from levada.model.errors import ApiError, NotController
from levada.node.controller_loop import ControllerLoop
from levada.node.metadata_tail import MetadataTail
from levada.protocol.declare import AnsweredBy
from levada.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from levada.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from levada.storage.log_directory import NO_ID
from levada.world.background import OnFatal, cancel_and_wait, start
from levada.world.world import World

logger = logging.getLogger(__name__)

Reply = TypeVar("Reply")

RETRY_SECONDS = 0.1


class ClusterMembership:
    """Also the broker's way to the controller, which for now is always in this process."""

    def __init__(
        self,
        world: World,
        door: Door,
        tail: MetadataTail,
        defaults: Defaults,
        snapshot_bytes: int,
        on_fatal: OnFatal,
    ) -> None:
        self._world = world
        self._door = door
        self._tail = tail
        self._snapshot_bytes = snapshot_bytes
        self._on_fatal = on_fatal
        self.defaults = defaults
        self._active: ControllerLoop | None = None
        self._token: Token | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def is_controller(self) -> bool:
        return self._active is not None

    async def join(self) -> None:
        """Take part and become the controller; DoorError when that cannot be."""
        await self._door.register()
        token = await self._door.campaign()
        if token is None:
            controller_id = await self._door.controller_id()
            raise DoorError(
                f"broker {controller_id} is the controller there, and clusters of several brokers are not served by "
                "this version; give this broker a coordinator of its own"
            )
        self._token = token
        await self._tail.load()

    async def lead(self) -> None:
        """Begin to decide, and to follow what is decided."""
        assert self._token is not None, "only who has joined can lead"
        self._active = self._controller(self._token)
        self._tasks = [
            start("controller", self._lead(), self._on_fatal),
            start("reading of the metadata log", self._tail.run(self._maybe_snapshot), self._on_fatal),
        ]

    async def submit(self, request: AnsweredBy[Reply], version: int) -> Reply:
        """A controller's reply, once this node's image shows what it speaks of."""
        if self._active is None:
            raise NotController("There is no controller at the moment.")
        answer = await self._active.ask(request, version)
        await self._tail.reached(answer.offset)
        return answer.reply

    async def register(self, broker: Broker, incarnation: bytes, rack: str | None) -> None:
        """Enter the cluster with an epoch of its own, and be given work."""
        identity = broker.identity
        listener = Listener(name="PLAINTEXT", host=identity.host, port=identity.port, security_protocol=0)
        request = BrokerRegistrationRequest(
            broker_id=identity.node_id,
            cluster_id=identity.cluster_id,
            incarnation_id=incarnation,
            listeners=[listener],
            features=[
                Feature(
                    name=one.name,
                    min_supported_version=one.min_supported_version,
                    max_supported_version=one.max_supported_version,
                )
                for one in FEATURES
            ],
            rack=rack,
            log_dirs=[directory.directory_id for directory in broker.logs.online],
        )
        reply = await self.submit(request, 4)
        broker.epoch = reply.broker_epoch
        await self.beat(broker)

    def keep_beating(self, broker: Broker, interval_ms: int) -> None:
        self._tasks.append(start("heartbeat", self._beat_on(broker, interval_ms / 1000), self._on_fatal))

    async def beat(self, broker: Broker) -> None:
        """Say that this broker lives and how far it has read."""
        request = BrokerHeartbeatRequest(
            broker_id=broker.identity.node_id,
            broker_epoch=broker.epoch,
            current_metadata_offset=self._tail.image.offset,
            want_fence=False,
            want_shut_down=False,
            offline_log_dirs=[one.directory_id for one in broker.logs.offline if one.directory_id != NO_ID],
        )
        reply = await self.submit(request, 2)
        if reply.error_code != ErrorCode.NONE:
            logger.error("heartbeat refused code=%s", ErrorCode(reply.error_code).name)

    async def stop(self) -> None:
        """Decide, follow and say nothing any more."""
        await cancel_and_wait(*self._tasks)

    async def _lead(self) -> None:
        """Decide until deposed, then campaign again: what was written meanwhile is in the log to read."""
        while True:
            assert self._active is not None
            try:
                await self._active.run()
            finally:
                self._active = None
            self._token = None
            while self._token is None:
                await asyncio.sleep(RETRY_SECONDS)
                self._token = await self._campaign_again()
            self._active = self._controller(self._token)

    def _controller(self, token: Token) -> ControllerLoop:
        image, world = self._tail.image, self._world
        logger.info("controller epoch=%d offset=%d", token.epoch, image.offset)
        return ControllerLoop(self._door, token, image, world.clock, world.entropy, lambda: self.defaults)

    async def _campaign_again(self) -> Token | None:
        try:
            token = await self._door.campaign()
            # What the last epoch wrote counts now or never will.
            await self._tail.catch_up()
            return token
        except OSError as error:
            logger.error("cannot campaign, trying again reason=%r", str(error))
            return None

    async def _maybe_snapshot(self, image: Image) -> None:
        if self._active is not None and self._door.wants_snapshot(self._snapshot_bytes):
            await self._door.write_snapshot(image)

    async def _beat_on(self, broker: Broker, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await self._door.beat()
                await self.beat(broker)
            except (ApiError, OSError) as error:
                logger.error("cannot send the heartbeat of this broker reason=%r", str(error))
