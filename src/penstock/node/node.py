"""The composition root: wires one node onto a World, starts it, stops it."""

import asyncio
import logging
from dataclasses import replace

from penstock.broker.broker import Broker
from penstock.broker.broker_config import BrokerConfig, log_config
from penstock.broker.cleaning_figures import CleaningFigures, register_cleaning_gauges
from penstock.broker.dispatch import Dispatcher
from penstock.broker.flushing import Flushing
from penstock.broker.gauges import RECOVERY, RUNNING, SHUTTING_DOWN, STARTING, register_broker_gauges
from penstock.broker.group_coordinator import GroupCoordinator
from penstock.broker.group_gauges import register_group_gauges
from penstock.broker.group_warnings import warn_of_broker_settings
from penstock.broker.handlers import HANDLERS
from penstock.broker.markers import MarkerSender
from penstock.broker.metrics import BrokerMetrics
from penstock.broker.route import routes_of
from penstock.broker.settings import Identity, group_settings, transaction_settings
from penstock.broker.transaction_coordinator import TransactionCoordinator
from penstock.controller.adoption import AdoptRequest, SkipProducerIdsRequest
from penstock.controller.decision import Defaults
from penstock.doors.local import LocalDoor
from penstock.groups import Cluster, GroupCounts, GroupMachine
from penstock.metadata.door import DoorError
from penstock.metadata.image import GROUP, Image
from penstock.model.config import ConfigError
from penstock.model.hashes import uuid_from_text, uuid_to_text
from penstock.model.metrics import Registry
from penstock.net.connection import ConnectionSettings, ServerConnection
from penstock.net.frames import SCRATCH_SIZE
from penstock.net.open_connections import OpenConnections
from penstock.net.request_memory import RequestMemory
from penstock.node.broker_view import NodeView
from penstock.node.cleaning import LogCleaning
from penstock.node.directories import Found, find_deleted, find_partitions, topics_to_adopt
from penstock.node.limits import connection_limits, files_kept_open, open_files_warning
from penstock.node.membership import Membership
from penstock.node.metadata_tail import MetadataTail
from penstock.node.metrics_endpoint import MetricsEndpoint
from penstock.node.opening import open_replicas
from penstock.node.settings import NodeSettings, coordinator_directory, without_meaning
from penstock.node.upkeep import Intervals, Upkeep
from penstock.protocol.api import ApiKey
from penstock.records import COMPILED, Codec
from penstock.storage.identity import Identity as DirectoryIdentity
from penstock.storage.identity import create_identity, load_identity, new_uuid
from penstock.storage.log_directory import LogDirectory
from penstock.storage.open_files import DEFAULT_LIMIT
from penstock.transactions import TransactionMachine
from penstock.world.disk import DirectoryLock
from penstock.world.net import BACKLOG, Listener
from penstock.world.world import World

logger = logging.getLogger(__name__)

HOT_APIS = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA)

METRICS_TICK_SECONDS = 5.0
GRACE_SECONDS = 1.0
"""How long a stopping node waits for replies, long polls among them, to leave."""


class Node:
    """One broker in one data directory."""

    def __init__(self, world: World, settings: NodeSettings) -> None:
        self._world = world
        self._settings = settings
        self._config = BrokerConfig(settings.config)
        self._group_settings = group_settings(self._config)
        # Kafka's default is too short for clients that all come at once after a restart.
        backlog_key = "socket.listen.backlog.size"
        self._backlog = self._config[backlog_key] if backlog_key in settings.config.given else BACKLOG
        self._connections = OpenConnections(connection_limits(self._config), self._backlog)
        self._memory = RequestMemory(self._config["queued.max.request.bytes"])
        self._lock: DirectoryLock | None = None
        self._membership: Membership | None = None
        self.broker: Broker | None = None
        self._registry = Registry()
        self._endpoint: MetricsEndpoint | None = None
        self._ticking: asyncio.Task[None] | None = None
        self._state = STARTING
        self._is_recovered = False
        self._upkeep: Upkeep | None = None
        self._cleaning: LogCleaning | None = None
        self._listener: Listener | None = None

    @property
    def port(self) -> int:
        assert self._listener is not None, "the node has not been started"
        return self._listener.port

    async def start(self) -> None:
        """Recover the data directory, join the cluster, open the port; ConfigError or OSError when that cannot be."""
        for key in without_meaning(self._settings.config):
            logger.warning("config key=%s has no effect here", key)
        warn_of_broker_settings(self._config)
        self._world.disk.make_directories(self._settings.data_directory)
        self._lock = self._claim()
        await self._open_endpoint()
        incarnation = new_uuid(self._world.entropy)
        try:
            known = load_identity(self._world.disk, self._settings.data_directory, self._settings.node_id)
            door, tail = await self._join(incarnation)
            identity = await self._identity(door, known)
            broker = await self._serve_from(tail, identity)
            assert self._membership is not None
            await self._membership.register(broker, incarnation, self._config["broker.rack"])
        except DoorError as error:
            raise ConfigError(str(error)) from error
        self._membership.keep_beating(broker, self._config["broker.heartbeat.interval.ms"])
        self._start_upkeep(broker)
        assert self._listener is not None
        await self._listener.start()
        self._state = RUNNING
        logger.info(
            "started node_id=%d cluster_id=%s topics=%d kernel=%s",
            identity.node_id,
            identity.cluster_id,
            len(broker.image.topics),
            "compiled" if COMPILED else "pure",
        )

    async def stop(self) -> None:
        """Finish what clients are owed, bring the logs to the disk, let go of the directory."""
        broker = self.broker
        self._state = SHUTTING_DOWN
        if self._listener is not None:
            self._listener.close()
        if broker is not None:
            broker.groups.close()
            broker.transactions.close()
            broker.delayed.close()
        await self._connections.close(GRACE_SECONDS)
        if self._ticking is not None:
            self._ticking.cancel()
        if self._cleaning is not None:
            await self._cleaning.stop()
        if self._upkeep is not None:
            await self._upkeep.stop()
        if self._membership is not None:
            await self._membership.close()
        if broker is not None and self._is_recovered:
            # Only now may a stop say that it was clean.
            broker.logs.close(broker.epoch)
        await self._world.workers.close()
        if self._endpoint is not None:
            self._endpoint.close()
        if self._lock is not None:
            self._lock.release()

    def _claim(self) -> DirectoryLock:
        path = f"{self._settings.data_directory}/.lock"
        try:
            return self._world.disk.lock(path)
        except BlockingIOError:
            raise ConfigError(
                f"{self._settings.data_directory} is in use by another broker; stop it or choose another --data-dir"
            ) from None

    async def _join(self, incarnation: bytes) -> tuple[LocalDoor, MetadataTail]:
        settings, config = self._settings, self._config
        door = LocalDoor(
            self._world,
            coordinator_directory(settings),
            settings.node_id,
            uuid_to_text(incarnation),
            config["broker.session.timeout.ms"],
        )
        door.open()
        tail = MetadataTail(door)
        defaults = Defaults(
            partitions=config["num.partitions"],
            replication_factor=config["default.replication.factor"],
            allows_deletion=config["delete.topic.enable"],
            node_id=settings.node_id,
            given=settings.config.given,
        )
        snapshot_bytes = config["metadata.log.max.record.bytes.between.snapshots"]
        self._membership = Membership(self._world, door, tail, defaults, snapshot_bytes)
        await self._membership.join()
        return door, tail

    async def _identity(self, door: LocalDoor, known: DirectoryIdentity | None) -> Identity:
        """Who this node is; its directory must belong to the coordinator's cluster."""
        settings, world = self._settings, self._world
        cluster_id = await door.cluster_id(known.cluster_id if known else uuid_to_text(new_uuid(world.entropy)))
        own = known or create_identity(world.disk, settings.data_directory, settings.node_id, cluster_id, world.entropy)
        if cluster_id != own.cluster_id:
            raise ConfigError(
                f"{settings.data_directory} belongs to cluster {own.cluster_id}, its coordinator to {cluster_id}; "
                "use the coordinator it was made with, or another data directory"
            )
        directory_id = uuid_from_text(own.directory_id) if own.directory_id else bytes(16)
        return Identity(settings.node_id, cluster_id, settings.advertised_host, settings.advertised_port, directory_id)

    async def _serve_from(self, tail: MetadataTail, identity: Identity) -> Broker:
        """Open the logs that the metadata gives this node, and bind the port they will be served on."""
        membership, world = self._membership, self._world
        assert membership is not None
        logs = self._log_directory()
        metrics = BrokerMetrics(self._registry, world.clock.monotonic_ms())
        flushing = Flushing(world.async_disk, world.clock, metrics.log_flushes)
        groups, transactions = self._group_coordinator(flushing), self._transaction_coordinator(flushing)
        broker = Broker(world, identity, self._config, logs, groups, transactions, metrics, membership)
        self.broker = broker
        transactions.send_markers = MarkerSender(broker).send
        broker.on_reconfigured = self._reconfigure
        view = NodeView(broker, self._connections, self._memory, lambda: self._state, lambda: membership.is_controller)
        register_broker_gauges(self._registry, view)
        self._state = RECOVERY
        logs.begin()
        found = find_partitions(world.disk, logs.directory)
        broker.replicas.retire_at_once(find_deleted(world.disk, logs.directory))
        await membership.lead()
        is_adopted = await self._adopt(found, tail.image)
        broker.load(tail.image)
        await open_replicas(world, broker, found, tail.image)
        self._is_recovered = True
        if is_adopted:
            seen = [entry.producer_id for log in logs.logs for entry in log.producers.entries()]
            await membership.submit(SkipProducerIdsRequest(max(seen, default=-1) + 1), 0)
        warning = open_files_warning(self._settings.open_files_allowed, sum(len(log.segments) for log in logs.logs))
        if warning is not None:
            logger.warning("%s", warning)
        tail.follow(broker.follow)
        self._listener = await self._bind(broker)
        if not identity.port:
            broker.identity = replace(identity, port=self.port)
        return broker

    def _reconfigure(self, config: BrokerConfig) -> None:
        self._connections.limits = connection_limits(config)
        self._group_settings = group_settings(config)
        assert self.broker is not None, "only a broker learns of changes"
        self.broker.groups.reconfigure(self._group_settings)

    async def _adopt(self, found: list[Found], image: Image) -> bool:
        """The first node of a cluster takes over the topics that lie in its directory."""
        if image.offset >= 0:
            return False
        assert self._membership is not None
        disk, directory = self._world.disk, self._settings.data_directory
        topics = topics_to_adopt(disk, directory, found)
        return bool(await self._membership.submit(AdoptRequest(self._settings.node_id, topics), 0))

    def _log_directory(self) -> LogDirectory:
        entropy = self._world.entropy
        return LogDirectory(
            self._world.disk,
            self._settings.data_directory,
            log_config(self._config, {}),
            lambda bound: entropy.below(bound) if bound else 0,
            min(files_kept_open(self._settings.open_files_allowed), DEFAULT_LIMIT),
        )

    def _image(self) -> Image:
        assert self.broker is not None
        return self.broker.image

    def _transaction_coordinator(self, flushing: Flushing) -> TransactionCoordinator:
        world, settings = self._world, transaction_settings(self._config)
        coordinator = TransactionCoordinator(
            lambda: TransactionMachine(settings, self._producer_id_at_hand), world.clock, world.async_disk, flushing
        )
        coordinator.load_buffer_size = self._config["transaction.state.log.load.buffer.size"]
        return coordinator

    def _producer_id_at_hand(self) -> int:
        assert self.broker is not None
        return self.broker.producer_ids.at_hand()

    def _group_coordinator(self, flushing: Flushing) -> GroupCoordinator:
        world, config = self._world, self._config
        counts = GroupCounts()
        cluster = Cluster(self._image, lambda group_id: self._image().config_of(GROUP, group_id))
        coordinator = GroupCoordinator(
            lambda: GroupMachine(self._group_settings, cluster, world.entropy.random_bytes, counts),
            world.clock,
            world.async_disk,
            flushing,
        )
        coordinator.load_buffer_size = config["offsets.load.buffer.size"]
        coordinator.codec = Codec(config["offsets.topic.compression.codec"])
        register_group_gauges(self._registry, coordinator, counts)
        return coordinator

    async def _bind(self, broker: Broker) -> Listener:
        settings, config = self._settings, self._config
        dispatcher = Dispatcher(routes_of(HANDLERS), broker, broker.metrics)
        dispatcher.warm(HOT_APIS)
        connection_settings = ConnectionSettings(
            scratch=bytearray(SCRATCH_SIZE),
            max_frame_size=config["socket.request.max.bytes"],
            async_disk=self._world.async_disk,
            poison_frames=config["penstock.poison.buffers"],
            memory=self._memory,
        )
        return await self._world.net.listen(
            settings.listen_host,
            settings.listen_port,
            lambda: ServerConnection(dispatcher, connection_settings, self._connections),
            self._backlog,
        )

    def _start_upkeep(self, broker: Broker) -> None:
        config = self._config
        intervals = Intervals(
            checkpoint_ms=config["log.flush.offset.checkpoint.interval.ms"],
            retention_check_ms=config["log.retention.check.interval.ms"],
            producer_check_ms=config["producer.id.expiration.check.interval.ms"],
        )
        self._upkeep = Upkeep(self._world, broker.logs, broker.replicas, broker.flushing, intervals)
        self._upkeep.start()
        figures = CleaningFigures()
        now_ms = self._world.clock.now_ms
        register_cleaning_gauges(self._registry, broker.logs.absolute_directory, figures, now_ms)
        self._cleaning = LogCleaning(self._world, broker.logs, broker.flushing, config, figures)
        self._cleaning.start()
        self._ticking = asyncio.get_running_loop().create_task(self._tick(broker))

    async def _tick(self, broker: Broker) -> None:
        """Rates are averages over time, so somebody has to count it."""
        while True:
            await asyncio.sleep(METRICS_TICK_SECONDS)
            broker.metrics.fetch_session_evictions.count = broker.fetch_sessions.evictions
            broker.metrics.tick(self._world.clock.monotonic_ms())

    async def _open_endpoint(self) -> None:
        """Before recovery, which may take long: whoever asks learns that this node lives and is not ready."""
        port = self._config["penstock.metrics.port"]
        if port:
            self._endpoint = MetricsEndpoint(self._registry, lambda: self._state == RUNNING)
            await self._endpoint.start(self._world.net, self._settings.listen_host, port)
