"""This node's part in its cluster: it registers, says that it lives, hears of changes, and asks the controller."""

import asyncio
import logging
from dataclasses import dataclass, replace
from typing import TypeVar

from levada.broker.broker import Broker
from levada.broker.features import FEATURES
from levada.broker.settings import Endpoint
from levada.controller.decision import Defaults
from levada.metadata.door import Door, DoorError
from levada.metadata.image import Image
from levada.model.error_codes import RETRIABLE, ErrorCode
from levada.model.errors import ApiError, ControllerLost, NotController
from levada.model.hashes import uuid_to_text
from levada.node.controller_channel import ControllerChannel, broker_client_id, names_broker
from levada.node.controllership import Controllership
from levada.node.metadata_tail import MetadataTail
from levada.protocol.declare import AnsweredBy, Request
from levada.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from levada.protocol.messages.alter_partition import AlterPartitionRequest
from levada.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from levada.protocol.messages.await_metadata import AwaitMetadataRequest
from levada.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from levada.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from levada.storage.log_directory import NO_ID
from levada.world.background import OnFatal, cancel_and_wait, start
from levada.world.world import World

logger = logging.getLogger(__name__)

Reply = TypeVar("Reply")

RETRY_SECONDS = 0.1
PATIENCE_MS = 15_000
"""How long a request waits for a controller: an election takes a session timeout and a little more."""
CALL_SECONDS = 30.0
LEAVE_SECONDS = 3.0
"""How long a broker that stops waits for a controller to hear of it."""
NOTICE_MS = 10_000
"""How long the controller keeps the question whether something has changed."""

OF_BROKERS = (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
)
"""What brokers ask for themselves; all else they forward for clients."""


@dataclass(frozen=True, slots=True)
class Times:
    heartbeat_interval_ms: int
    session_timeout_ms: int
    registration_timeout_ms: int


class ClusterMembership:
    """Also the broker's way to the controller, in this process or at another broker."""

    def __init__(
        self,
        world: World,
        door: Door,
        tail: MetadataTail,
        node_id: int,
        incarnation: bytes,
        defaults: Defaults,
        times: Times,
        snapshot_bytes: int,
        on_fatal: OnFatal,
    ) -> None:
        self._world = world
        self._door = door
        self._tail = tail
        self._node_id = node_id
        self._incarnation = incarnation
        self._registration: BrokerRegistrationRequest | None = None
        self._times = times
        self._snapshot_bytes = snapshot_bytes
        self._on_fatal = on_fatal
        self.defaults = defaults
        self._controllership = Controllership(
            world, door, tail, lambda: self.defaults, times.session_timeout_ms, on_fatal
        )
        # What waits long must not stand before what is urgent.
        client_id = broker_client_id(node_id, uuid_to_text(incarnation))
        self._requests, self._heartbeats, self._notices = (
            ControllerChannel(world.net, door, client_id) for _ in range(3)
        )
        self._lease_ends_ms = 0
        self._is_leaving = False
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def is_controller(self) -> bool:
        return self._controllership.active is not None

    @property
    def controller_id(self) -> int:
        """The active controller; this broker where it is connected to none.

        Clients cling to the one they are told, and wait for it long after it has died. Any broker forwards.
        """
        known = None if self.is_controller else self._heartbeats.controller_id
        return self._node_id if known is None else known

    @property
    def has_lease(self) -> bool:
        """Whether the controller cannot have fenced this broker yet: it was heard lately, and reads what is decided."""
        return not self._is_leaving and self._world.clock.monotonic_ms() < self._lease_ends_ms

    async def join(self, cluster_id: str) -> None:
        """Take part and read what there is; DoorError or OSError when that cannot be."""
        self.defaults = replace(self.defaults, cluster_id=cluster_id)
        await self._door.register()
        while not await self._tail.catch_up():
            # A controller that died while it was elected can only be succeeded; this node does not answer others yet.
            await self._controllership.succeed_once()

    async def begin_campaigning(self) -> None:
        """Be the controller while there is no other, and follow what is decided."""
        self._tasks.append(start("heartbeat of the coordinator", self._beat_at_door(), self._on_fatal))
        await self._controllership.begin()
        self._tasks.append(start("reading of the metadata log", self._tail.run(self._maybe_snapshot), self._on_fatal))

    async def announce(self, endpoint: Endpoint) -> None:
        """Tell the other brokers where this one answers them."""
        await self._door.announce(endpoint.host, endpoint.port)

    async def submit(self, request: AnsweredBy[Reply], version: int) -> Reply:
        """A controller's reply, once this node's image shows what it speaks of; waits a while for a controller.

        What may have been carried out is not asked for again: a topic that was deleted by the first request would not
        be there for the second.
        """
        begun_ms = self._world.clock.monotonic_ms()
        while True:
            try:
                return await self._ask(request, version)
            except NotController:
                if self._world.clock.monotonic_ms() - begun_ms >= PATIENCE_MS:
                    raise
            await asyncio.sleep(RETRY_SECONDS)

    async def decide(self, request: AnsweredBy[Reply], version: int) -> Reply:
        """The reply of this node's own controller, for another broker; NotController if another node has it."""
        active = self._controllership.active
        if active is None:
            raise NotController("This is not the correct controller for this cluster.")
        return (await active.ask(request, version)).reply

    async def changed(self, offset: int, seconds: float) -> int:
        """Where the metadata log ends, once that is behind an offset; NotController as above."""
        active = self._controllership.active
        if active is None:
            raise NotController("This is not the correct controller for this cluster.")
        return await active.changed(offset, seconds)

    async def _ask(self, request: AnsweredBy[Reply], version: int) -> Reply:
        active = self._controllership.active
        if active is not None:
            answer = await active.ask(request, version)
            await self._tail.reached(answer.offset)
            return answer.reply
        if not isinstance(request, Request):
            raise NotController("There is no controller in this process.")
        ask = self._requests.call if type(request) in OF_BROKERS else self._requests.forward
        reply: Reply = await ask(request, version, CALL_SECONDS)
        await self._catch_up()
        return reply

    async def _catch_up(self) -> None:
        """What the controller has answered counts, even if this broker cannot see it yet."""
        try:
            await self._tail.catch_up()
        except OSError as error:
            logger.error("cannot read the metadata log, trying again reason=%r", str(error))

    def knows_broker(self, client_id: str | None) -> bool:
        """Whether it names a broker of the cluster, as far as this node has to say."""
        active = self._controllership.active
        return active is None or names_broker(client_id, active.image)

    async def register(self, broker: Broker, rack: str | None) -> None:
        """Enter the cluster with an epoch of its own, and be given work; DoorError if that cannot be."""
        identity = broker.identity
        self._registration = request = BrokerRegistrationRequest(
            broker_id=identity.node_id,
            cluster_id=identity.cluster_id,
            incarnation_id=self._incarnation,
            listeners=[_listener(endpoint) for endpoint in identity.endpoints],
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
        ends_ms = self._world.clock.monotonic_ms() + self._times.registration_timeout_ms
        while True:
            if await self._try_to_register(broker, request, ends_ms):
                return
            await asyncio.sleep(RETRY_SECONDS)

    async def _try_to_register(self, broker: Broker, request: BrokerRegistrationRequest, ends_ms: int) -> bool:
        try:
            reply = await self.submit(request, 4)
            if reply.error_code == ErrorCode.NONE:
                broker.epoch = reply.broker_epoch
                return not (await self.beat_and_see(broker)).is_fenced
        except (NotController, ControllerLost) as error:
            if self._world.clock.monotonic_ms() >= ends_ms:
                raise DoorError(f"no controller has registered this broker within its time: {error}") from error
            return False
        code = ErrorCode(reply.error_code)
        may_pass = RETRIABLE | {ErrorCode.DUPLICATE_BROKER_REGISTRATION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
        if code not in may_pass:
            raise DoorError(f"the controller, broker {self.controller_id}, refuses this broker: {code.name}")
        if self._world.clock.monotonic_ms() < ends_ms:
            return False
        if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise DoorError(f"the controller, broker {self.controller_id}, does not see this broker take part")
        if code in RETRIABLE:
            raise DoorError(f"the controller, broker {self.controller_id}, cannot register this broker: {code.name}")
        raise DoorError(
            f"another broker with id {request.broker_id} is alive in this cluster; stop it or choose another --node-id"
        )

    def keep_beating(self, broker: Broker) -> None:
        """And hear of changes: a controller tells registered brokers alone."""
        self._tasks.append(start("heartbeat", self._beat_on(broker), self._on_fatal))
        self._tasks.append(start("notices of changes", self._hear_of_changes(), self._on_fatal))

    async def beat(self, broker: Broker, *, wants_to_stop: bool = False) -> BrokerHeartbeatResponse:
        """Say that this broker lives and how far it has read; ApiError if no controller hears it."""
        request = BrokerHeartbeatRequest(
            broker_id=broker.identity.node_id,
            broker_epoch=broker.epoch,
            current_metadata_offset=self._tail.image.offset,
            want_fence=False,
            want_shut_down=wants_to_stop,
            offline_log_dirs=[one.directory_id for one in broker.logs.offline if one.directory_id != NO_ID],
        )
        sent_ms = self._world.clock.monotonic_ms()
        active = self._controllership.active
        if active is not None:
            reply = (await active.ask(request, 2)).reply
        else:
            reply = await self._heartbeats.call(request, 2, self._times.session_timeout_ms / 1000)
        if reply.error_code != ErrorCode.NONE:
            logger.error("heartbeat refused code=%s", ErrorCode(reply.error_code).name)
        elif reply.is_fenced:
            self._lease_ends_ms = 0
        elif reply.is_caught_up:
            # From when it was sent: the controller counts from when it came, which is later.
            self._lease_ends_ms = sent_ms + self._times.session_timeout_ms
        return reply

    async def beat_and_see(self, broker: Broker) -> BrokerHeartbeatResponse:
        """The same, and this node's image shows what the controller has made of it."""
        reply = await self.beat(broker)
        await self._catch_up()
        return reply

    async def leave(self, broker: Broker) -> None:
        """Before this broker stops on purpose: others lead what they can, and are told at once."""
        others = [one for one in self._tail.image.live_brokers() if one.broker_id != self._node_id]
        if not others or broker.epoch < 0:
            return
        # The controller may fence it before its answer is here.
        self._is_leaving = True
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                await self.beat(broker, wants_to_stop=True)
        except (ApiError, OSError, TimeoutError) as error:
            logger.warning("stopping without a controller that knows of it reason=%r", str(error))

    async def resign(self) -> None:
        """Decide nothing any more; another broker may at once."""
        await self._controllership.end()

    async def stop(self) -> None:
        """Decide, follow and say nothing any more."""
        await self.resign()
        await cancel_and_wait(*self._tasks)
        for channel in (self._requests, self._heartbeats, self._notices):
            channel.close()

    async def _maybe_snapshot(self, image: Image) -> None:
        if self.is_controller and self._door.wants_snapshot(self._snapshot_bytes):
            await self._door.write_snapshot(image)

    async def _hear_of_changes(self) -> None:
        """Ask the controller, when it is another node, to say at once what has changed; the log is read anyway."""
        while True:
            if self.is_controller:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            request = AwaitMetadataRequest(offset=self._tail.image.offset, max_wait_ms=NOTICE_MS)
            try:
                reply = await self._notices.call(request, 0, NOTICE_MS / 1000 + self._times.session_timeout_ms / 1000)
            except ApiError:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if reply.offset > self._tail.image.offset:
                await self._catch_up()

    async def _beat_at_door(self) -> None:
        while True:
            await asyncio.sleep(self._times.heartbeat_interval_ms / 1000)
            try:
                await self._door.beat()
            except OSError as error:
                logger.error("cannot tell the coordinator that this broker lives reason=%r", str(error))

    async def _beat_on(self, broker: Broker) -> None:
        had_lease, was_heard = True, True
        while True:
            await asyncio.sleep(self._times.heartbeat_interval_ms / 1000)
            try:
                reply = await self.beat(broker)
                await self._heed(reply, broker)
                if not was_heard:
                    logger.info("heartbeats of this broker are heard again controller=%d", self.controller_id)
                was_heard = True
            except (ApiError, OSError) as error:
                if was_heard:
                    logger.error("cannot send the heartbeat of this broker reason=%r", str(error))
                was_heard = False
            if had_lease and not self.has_lease:
                logger.warning("no controller has heard of this broker for a session; it may be fenced by now")
            had_lease = self.has_lease

    async def _heed(self, reply: BrokerHeartbeatResponse, broker: Broker) -> None:
        if reply.error_code != ErrorCode.STALE_BROKER_EPOCH:
            return
        await self._catch_up()
        known = self._tail.image.brokers.get(self._node_id)
        if known is None and self._registration is not None:
            # It was fenced, and an operator has forgotten it since.
            logger.warning("registering again, for this broker was unregistered")
            await self._try_to_register(broker, self._registration, self._world.clock.monotonic_ms() + PATIENCE_MS)
        elif known is not None and known.incarnation_id == self._incarnation:
            # The answer to a registration of ours was lost.
            broker.epoch = known.epoch
        elif known is not None:
            self._on_fatal(f"another process has registered as broker {self._node_id}")


def _listener(endpoint: Endpoint) -> Listener:
    return Listener(name=endpoint.listener, host=endpoint.host, port=endpoint.port, security_protocol=0)
