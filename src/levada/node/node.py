"""The composition root: wires one node onto a World, starts it, stops it."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

from levada.broker.broker import Broker
from levada.broker.broker_config import BrokerConfig, log_config
from levada.broker.cleaning_figures import CleaningFigures, register_cleaning_gauges
from levada.broker.dispatch import Dispatcher
from levada.broker.gauges import RECOVERY, RUNNING, SHUTTING_DOWN, STARTING, register_broker_gauges
from levada.broker.group_gauges import register_group_gauges
from levada.broker.group_warnings import warn_of_broker_settings
from levada.broker.handlers import HANDLERS
from levada.broker.metrics import BrokerMetrics
from levada.broker.route import routes_of
from levada.broker.settings import BrokerIdentity, Endpoint
from levada.controller.adoption import AdoptRequest, SkipProducerIdsRequest
from levada.controller.decision import Defaults
from levada.metadata.delta import Delta
from levada.metadata.door import Door, DoorError
from levada.metadata.image import Image
from levada.model.config import ConfigError
from levada.model.errors import KafkaStorageError
from levada.model.hashes import uuid_to_text
from levada.model.metrics import Registry
from levada.net.connection import ServerConnection
from levada.net.connection_settings import ConnectionSettings
from levada.net.frames import SCRATCH_SIZE
from levada.net.open_connections import OpenConnections
from levada.net.request_memory import RequestMemory
from levada.node.broker_view import NodeView
from levada.node.cleaning import LogCleaning
from levada.node.coordinator import Coordinator, is_private, open_coordinator
from levada.node.data_directories import DataDirectories
from levada.node.directories import Found, Unfinished, topics_to_adopt
from levada.node.directory_watch import DirectoryWatch
from levada.node.disk_usage import DiskUsage
from levada.node.found_logs import find_logs
from levada.node.limits import connection_limits, files_kept_open, open_files_warning
from levada.node.listeners import ListenerSettings
from levada.node.membership import ClusterMembership, Times
from levada.node.metadata_copy import MetadataCopy, read_copy
from levada.node.metadata_tail import MetadataTail
from levada.node.metrics_endpoint import MetricsEndpoint
from levada.node.moving import Moves
from levada.node.opening import open_replicas
from levada.node.settings import NodeSettings, without_meaning
from levada.node.start_errors import cannot_listen
from levada.node.upkeep import Intervals, Upkeep
from levada.protocol.api import ApiKey
from levada.records import COMPILED
from levada.storage.identity import new_uuid
from levada.storage.log_directories import LogDirectories
from levada.world.background import cancel_and_wait, start
from levada.world.net import BACKLOG, Listener
from levada.world.world import World

logger = logging.getLogger(__name__)

HOT_APIS = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA)

METRICS_TICK_SECONDS = 5.0
REPLICAS = 1
"""Of a partition: brokers do not copy records from each other yet."""
GRACE_SECONDS = 1.0
"""How long a stopping node waits for replies, long polls among them, to leave."""


@dataclass(frozen=True, slots=True)
class RunningParts:
    """What there is of a node that has started."""

    broker: Broker
    membership: ClusterMembership
    listeners: list[Listener]
    cleaning: LogCleaning


class Node:
    """One broker with its data directories."""

    def __init__(self, world: World, settings: NodeSettings) -> None:
        self._world = world
        self._settings = settings
        self._config = BrokerConfig(settings.config)
        # Kafka's default is too short for clients that all come at once after a restart.
        backlog_key = "socket.listen.backlog.size"
        self._backlog = self._config[backlog_key] if backlog_key in settings.config.given else BACKLOG
        self._connections = OpenConnections(connection_limits(self._config, settings.open_files_allowed), self._backlog)
        self._memory = RequestMemory(self._config["queued.max.request.bytes"])
        self._directories = DataDirectories(world.disk, world.entropy, settings)
        self._copy = None if is_private(settings) else MetadataCopy(world.disk, settings.data_directory)
        """Of the metadata; a coordinator of this node's own lies in the same directory."""
        self.on_fatal: Callable[[str], None] = lambda _: None
        """Called when this node cannot go on, with the reason; the caller of `start` should stop it."""
        self.metrics = Registry()
        """All that can be seen of this node from outside; the process that runs it may add to them."""
        self._state = STARTING
        self._is_recovered = False
        self._parts: RunningParts | None = None
        self._endings = AsyncExitStack()
        """How to end what has been started, in the opposite order."""

    @property
    def parts(self) -> RunningParts:
        assert self._parts is not None, "the node has not been started"
        return self._parts

    @property
    def port(self) -> int:
        """Of the first listener."""
        return self.parts.listeners[0].port

    async def start(self) -> None:
        """Recover the data directory, join the cluster, open the port; ConfigError or OSError when that cannot be."""
        if ineffective := without_meaning(self._settings.config):
            logger.warning("no effect here: keys=%s", ",".join(ineffective))
        warn_of_broker_settings(self._config)
        self._endings.callback(self._directories.release)
        self._endings.push_async_callback(self._world.workers.close)
        self._directories.claim()
        await self._open_endpoint()
        incarnation = new_uuid(self._world.entropy)
        try:
            coordinator = self._open_coordinator(incarnation)
            door = coordinator.door
            cluster_id = await self._cluster_id(door)
            self._directories.identify(cluster_id)
            tail = MetadataTail(door, self._copy)
            membership = self._membership(door, tail, incarnation)
            await membership.join(cluster_id)
            self._refuse_forgetful(tail.image)
            broker = self._make_broker(BrokerIdentity(self._settings.node_id, cluster_id), membership)
            self._endings.push_async_callback(self._close_logs, broker)
            self._endings.push_async_callback(membership.stop)
            # Again when the port is open, before all else ends; here for a start that does not come so far.
            self._endings.callback(broker.close)
            if self._copy is not None:
                self._endings.callback(self._copy.close)
            if is_private(self._settings):
                # What lies in the directories may have to be taken over before it can be opened.
                await membership.begin_campaigning()
            unfinished = await self._recover(broker, membership, tail, coordinator.show)
            listeners = await self._bind(broker)
            if not is_private(self._settings):
                # A controller must answer the other brokers before it can be one.
                await self._open_ports(listeners)
                await membership.announce(self._inter_broker_endpoint(broker))
                await membership.begin_campaigning()
            await self._register(broker, membership, tail)
        except DoorError as error:
            raise ConfigError(str(error)) from error
        except KafkaStorageError as error:
            # The controller is this node itself, and refuses it what the disk has refused.
            raise OSError(str(error)) from error
        membership.keep_beating(broker)
        cleaning = self._start_upkeep(broker, membership, unfinished)
        # What a dead broker has left is shown when it is on the device, where configuration wants that.
        await broker.flushing.drain()
        self._parts = RunningParts(broker, membership, listeners, cleaning)
        self._endings.push_async_callback(self._end_requests, self._parts)
        if is_private(self._settings):
            await self._open_ports(listeners)
            await membership.announce(self._inter_broker_endpoint(broker))
        self._state = RUNNING
        logger.info(
            "started node_id=%d cluster_id=%s topics=%d kernel=%s",
            broker.identity.node_id,
            broker.identity.cluster_id,
            len(broker.image.topics),
            "compiled" if COMPILED else "pure",
        )

    async def _register(self, broker: Broker, membership: ClusterMembership, tail: MetadataTail) -> None:
        await membership.register(broker, self._config["broker.rack"])
        if self._copy is not None:
            await self._copy.refresh(tail.image)

    async def stop(self) -> None:
        """Finish what clients are owed, bring the logs to the disk, let go of the directory."""
        self._state = SHUTTING_DOWN
        await self._endings.aclose()

    async def _end_requests(self, parts: RunningParts) -> None:
        """Have others lead, accept no more, and answer those that wait."""
        await parts.membership.leave(parts.broker)
        await parts.membership.resign()
        for listener in parts.listeners:
            listener.close()
        parts.broker.close()
        await self._connections.close(GRACE_SECONDS)

    async def _close_logs(self, broker: Broker) -> None:
        await broker.flushing.drain()
        if self._is_recovered:
            # Only now may a stop say that it was clean.
            for directory in broker.logs:
                directory.close(broker.epoch)

    def _open_coordinator(self, incarnation: bytes) -> Coordinator:
        coordinator = open_coordinator(self._world, self._settings, uuid_to_text(incarnation))
        self._endings.push_async_callback(coordinator.close)
        return coordinator

    async def _cluster_id(self, door: Door) -> str:
        """Only a cluster that begins is given an id: by a broker that is new, or that has it to itself."""
        known = self._directories.known_cluster_id
        is_new = known is None or is_private(self._settings)
        proposal = (known or self._directories.new_cluster_id()) if is_new else None
        cluster_id = await door.cluster_id(proposal)
        if cluster_id is None:
            raise ConfigError(
                f"{self._settings.data_directory} belongs to cluster {known}, and the coordinator"
                f" {self._settings.coordinator} knows of none: if it has lost its memory, `levada metadata restore`"
                " gives it back"
            )
        return cluster_id

    def _refuse_forgetful(self, image: Image) -> None:
        """To follow a coordinator that knows less than this broker would be to forget topics, and remove their logs."""
        if self._copy is None:
            return
        applied = read_copy(self._world.disk, self._settings.data_directory)
        if applied is not None and image.offset < applied.image.offset:
            raise ConfigError(
                f"the coordinator {self._settings.coordinator} ends at offset {image.offset}, and this broker has"
                f" applied offset {applied.image.offset}: it is an older copy; `levada metadata restore` into an empty"
                " one brings the newer state back"
            )

    def _membership(self, door: Door, tail: MetadataTail, incarnation: bytes) -> ClusterMembership:
        config, node_id = self._config, self._settings.node_id
        defaults = Defaults(
            partitions=config["num.partitions"],
            replication_factor=config["default.replication.factor"],
            allows_deletion=config["delete.topic.enable"],
            max_replicas=REPLICAS,
            node_id=node_id,
            given=self._settings.config.given,
        )
        times = Times(
            heartbeat_interval_ms=config["broker.heartbeat.interval.ms"],
            session_timeout_ms=config["broker.session.timeout.ms"],
            registration_timeout_ms=config["initial.broker.registration.timeout.ms"],
        )
        snapshot_bytes = config["metadata.log.max.record.bytes.between.snapshots"]
        return ClusterMembership(
            self._world, door, tail, node_id, incarnation, defaults, times, snapshot_bytes, self._fail
        )

    def _make_broker(self, identity: BrokerIdentity, membership: ClusterMembership) -> Broker:
        world = self._world
        logs = self._log_directories()
        metrics = BrokerMetrics(self.metrics, world.clock.monotonic_ms())
        broker = Broker(world, identity, self._config, logs, metrics, membership, self._fail)
        broker.reconfigurables.append(self._limit_connections)
        register_group_gauges(self.metrics, broker.groups, broker.group_counts)
        view = NodeView(broker, self._connections, self._memory, lambda: self._state, lambda: membership.is_controller)
        register_broker_gauges(self.metrics, view)
        return broker

    async def _recover(
        self,
        broker: Broker,
        membership: ClusterMembership,
        tail: MetadataTail,
        show: Callable[[Delta, Image], None],
    ) -> list[Unfinished]:
        """Open the logs that the metadata gives this node, and follow what it gives later; the moves to resume."""
        self._state = RECOVERY
        found = find_logs(self._world.disk, broker)
        is_adopted = await self._adopt(found.partitions, membership, tail.image)
        image = tail.image
        broker.load(image)
        await open_replicas(self._world, broker, found.partitions, image)
        self._is_recovered = True
        logs = broker.logs.logs
        if is_adopted:
            seen = [entry.producer_id for log in logs for entry in log.producers.entries()]
            await membership.submit(SkipProducerIdsRequest(max(seen, default=-1) + 1), 0)
        warning = open_files_warning(self._settings.open_files_allowed, sum(len(log.segments) for log in logs))
        if warning is not None:
            logger.warning("%s", warning)

        async def follow(delta: Delta, image: Image) -> None:
            await broker.follow(delta, image)
            show(delta, image)

        await tail.follow(follow, since=image)
        return found.unfinished

    def _limit_connections(self, config: BrokerConfig) -> None:
        self._connections.limits = connection_limits(config, self._settings.open_files_allowed)

    async def _adopt(self, found: list[Found], membership: ClusterMembership, image: Image) -> bool:
        """The first node of a cluster takes over the topics that lie in its directory."""
        if image.offset >= 0 or not membership.is_controller or not is_private(self._settings):
            return False
        return bool(await membership.submit(AdoptRequest(self._settings.node_id, topics_to_adopt(found)), 0))

    def _fail(self, reason: str) -> None:
        logger.error("this node cannot go on reason=%r", reason)
        self.on_fatal(reason)

    def _log_directories(self) -> LogDirectories:
        entropy = self._world.entropy
        return self._directories.open(
            log_config(self._config, {}),
            lambda bound: entropy.below(bound) if bound else 0,
            files_kept_open(self._settings.open_files_allowed),
        )

    async def _bind(self, broker: Broker) -> list[Listener]:
        """The ports, which brokers and clients are told before they are open."""
        config = self._config
        dispatcher = Dispatcher(routes_of(HANDLERS), broker, broker.metrics)
        dispatcher.warm(HOT_APIS)
        common = ConnectionSettings(
            scratch=bytearray(SCRATCH_SIZE),
            max_frame_size=config["socket.request.max.bytes"],
            async_disk=self._world.async_disk,
            poison_frames=config["levada.poison.buffers"],
            memory=self._memory,
            unsent=broker.unsent,
            perf_ns=self._world.clock.perf_ns,
        )
        listeners, endpoints = [], []
        for one in self._settings.listeners:
            listener = await self._listen(one, dispatcher, common)
            listeners.append(listener)
            logger.info("listening listener=%s address=%s:%d", one.name, one.host or "0.0.0.0", listener.port)
            endpoint = one.endpoint(listener.port)
            endpoints += [] if endpoint is None else [endpoint]
        broker.identity = replace(broker.identity, endpoints=tuple(endpoints))
        return listeners

    async def _listen(self, one: ListenerSettings, dispatcher: Dispatcher, common: ConnectionSettings) -> Listener:
        serves_brokers = one.name == self._settings.inter_broker_listener
        settings = replace(common, listener=one.name, serves_brokers=serves_brokers)

        def connect() -> ServerConnection:
            return ServerConnection(dispatcher, settings, self._connections)

        try:
            listener = await self._world.net.listen(one.host, one.port, connect, self._backlog)
        except OSError as error:
            raise cannot_listen(error, one.host, one.port, "listeners (--listen)") from error
        self._endings.callback(listener.close)
        return listener

    async def _open_ports(self, listeners: Iterable[Listener]) -> None:
        for listener in listeners:
            await listener.start()

    def _inter_broker_endpoint(self, broker: Broker) -> Endpoint:
        [endpoint] = [one for one in broker.identity.endpoints if one.listener == self._settings.inter_broker_listener]
        return endpoint

    def _start_upkeep(self, broker: Broker, membership: ClusterMembership, unfinished: list[Unfinished]) -> LogCleaning:
        config, endings = self._config, self._endings
        intervals = Intervals(
            checkpoint_ms=config["log.flush.offset.checkpoint.interval.ms"],
            retention_check_ms=config["log.retention.check.interval.ms"],
            first_retention_check_ms=config["log.initial.task.delay.ms"],
            producer_check_ms=config["producer.id.expiration.check.interval.ms"],
        )
        upkeep = Upkeep(self._world, broker.logs, broker.replicas, broker.flushing, intervals, self._fail)
        upkeep.start()
        endings.push_async_callback(upkeep.stop)
        usage = DiskUsage(broker.logs, self._world.clock, config["levada.disk.usage.warn.percent"])
        watch = DirectoryWatch(broker, membership, usage, self._fail)
        watch.start()
        endings.push_async_callback(watch.stop)
        cleaning = self._start_cleaning(broker)
        endings.push_async_callback(cleaning.stop)
        moves = Moves(self._world, broker, cleaning)
        broker.moves = moves
        moves.resume(unfinished)
        endings.push_async_callback(moves.stop)
        endings.push_async_callback(cancel_and_wait, start("tick of the metrics", self._tick(broker)))
        return cleaning

    def _start_cleaning(self, broker: Broker) -> LogCleaning:
        figures = CleaningFigures()
        directories = [one.absolute_directory for one in broker.logs]
        register_cleaning_gauges(self.metrics, directories, figures, self._world.clock.now_ms)
        cleaning = LogCleaning(self._world, broker.logs, broker.flushing, broker.config, figures, self._fail)
        broker.reconfigurables.append(cleaning.reconfigure)
        cleaning.start()
        return cleaning

    async def _tick(self, broker: Broker) -> None:
        """Rates are averages over time, which has to be counted."""
        while True:
            await asyncio.sleep(METRICS_TICK_SECONDS)
            broker.metrics.fetch_session_evictions.count = broker.fetch_sessions.evictions
            broker.metrics.tick(self._world.clock.monotonic_ms())

    async def _open_endpoint(self) -> None:
        """Before recovery, which may take long: a supervisor that asks learns that this node lives and is not ready."""
        port = self._config["levada.metrics.port"]
        if not port:
            return
        endpoint = MetricsEndpoint(self.metrics, lambda: self._state == RUNNING)
        self._endings.callback(endpoint.close)
        host = self._settings.listeners[0].host
        try:
            await endpoint.start(self._world.net, host, port)
        except OSError as error:
            raise cannot_listen(error, host, port, "levada.metrics.port") from error
