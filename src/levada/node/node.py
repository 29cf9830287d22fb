"""The composition root: wires one node onto a World, starts it, stops it."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from levada.broker.broker import Broker
from levada.broker.broker_config import BrokerConfig, log_config
from levada.broker.cleaning_figures import CleaningFigures, register_cleaning_gauges
from levada.broker.dispatch import Dispatcher
from levada.broker.gauges import RECOVERY, RUNNING, SHUTTING_DOWN, STARTING, register_broker_gauges
from levada.broker.group_coordinator import GroupCoordinator
from levada.broker.group_gauges import register_group_gauges
from levada.broker.group_warnings import warn_of_broker_settings
from levada.broker.handlers import HANDLERS
from levada.broker.markers import MarkerSender
from levada.broker.metrics import BrokerMetrics
from levada.broker.route import routes_of
from levada.broker.settings import BrokerIdentity, group_settings, transaction_settings
from levada.broker.transaction_coordinator import TransactionCoordinator
from levada.controller.adoption import AdoptRequest, SkipProducerIdsRequest
from levada.controller.decision import Defaults
from levada.doors.local import LocalDoor
from levada.groups import GroupCluster, GroupCounts, GroupMachine
from levada.metadata.door import DoorError
from levada.metadata.image import GROUP, Image
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
from levada.node.data_directories import DataDirectories
from levada.node.directories import (
    Found,
    Unfinished,
    find_deleted,
    find_partitions,
    find_unfinished,
    superseded,
    topics_to_adopt,
    undecided,
)
from levada.node.directory_watch import DirectoryWatch
from levada.node.disk_usage import DiskUsage
from levada.node.limits import connection_limits, files_kept_open, open_files_warning
from levada.node.membership import ClusterMembership
from levada.node.metadata_tail import MetadataTail
from levada.node.metrics_endpoint import MetricsEndpoint
from levada.node.moving import Moves
from levada.node.opening import open_replicas
from levada.node.settings import NodeSettings, coordinator_directory, without_meaning
from levada.node.start_errors import cannot_listen
from levada.node.upkeep import Intervals, Upkeep
from levada.protocol.api import ApiKey
from levada.records import COMPILED, Codec
from levada.storage.identity import new_uuid
from levada.storage.log_directories import LogDirectories
from levada.storage.log_directory import DELETED, FUTURE
from levada.storage.move_tail import MOVED_FILE
from levada.transactions import TransactionMachine
from levada.world.background import cancel_and_wait, start
from levada.world.net import BACKLOG, Listener
from levada.world.world import World

logger = logging.getLogger(__name__)

HOT_APIS = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA)

METRICS_TICK_SECONDS = 5.0
GRACE_SECONDS = 1.0
"""How long a stopping node waits for replies, long polls among them, to leave."""


class Node:
    """One broker with its data directories."""

    def __init__(self, world: World, settings: NodeSettings) -> None:
        self._world = world
        self._settings = settings
        self._config = BrokerConfig(settings.config)
        self._group_settings = group_settings(self._config)
        # Kafka's default is too short for clients that all come at once after a restart.
        backlog_key = "socket.listen.backlog.size"
        self._backlog = self._config[backlog_key] if backlog_key in settings.config.given else BACKLOG
        self._connections = OpenConnections(connection_limits(self._config, settings.open_files_allowed), self._backlog)
        self._memory = RequestMemory(self._config["queued.max.request.bytes"])
        self._directories = DataDirectories(world.disk, world.entropy, settings)
        self.on_fatal: Callable[[str], None] = lambda _: None
        """Called when this node cannot go on, with the reason; whoever runs it should stop it."""
        self._membership: ClusterMembership | None = None
        self.broker: Broker | None = None
        self.metrics = Registry()
        """All that those who watch this node can see; what runs it may add to them."""
        self._endpoint: MetricsEndpoint | None = None
        self._ticking: asyncio.Task[None] | None = None
        self._state = STARTING
        self._is_recovered = False
        self._upkeep: Upkeep | None = None
        self._cleaning: LogCleaning | None = None
        self._watch: DirectoryWatch | None = None
        self._moves: Moves | None = None
        self._unfinished: list[Unfinished] = []
        self._listener: Listener | None = None

    @property
    def port(self) -> int:
        assert self._listener is not None, "the node has not been started"
        return self._listener.port

    async def start(self) -> None:
        """Recover the data directory, join the cluster, open the port; ConfigError or OSError when that cannot be."""
        if ineffective := without_meaning(self._settings.config):
            logger.warning("no effect here: keys=%s", ",".join(ineffective))
        warn_of_broker_settings(self._config)
        self._directories.claim()
        await self._open_endpoint()
        incarnation = new_uuid(self._world.entropy)
        try:
            door, tail = await self._join(incarnation)
            identity = await self._identity(door)
            broker = await self._serve_from(tail, identity)
            assert self._membership is not None
            await self._membership.register(broker, incarnation, self._config["broker.rack"])
        except DoorError as error:
            raise ConfigError(str(error)) from error
        except KafkaStorageError as error:
            # The controller is this node itself, and refuses it what the disk has refused.
            raise OSError(str(error)) from error
        self._membership.keep_beating(broker, self._config["broker.heartbeat.interval.ms"])
        self._start_upkeep(broker)
        # What a dead broker has left is shown when it is on the device, where configuration wants that.
        await broker.flushing.drain()
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
        await cancel_and_wait(self._ticking)
        if self._moves is not None:
            await self._moves.stop()
        if self._cleaning is not None:
            await self._cleaning.stop()
        if self._watch is not None:
            await self._watch.stop()
        if self._upkeep is not None:
            await self._upkeep.stop()
        if self._membership is not None:
            await self._membership.close()
        if broker is not None:
            await broker.flushing.drain()
        if broker is not None and self._is_recovered:
            # Only now may a stop say that it was clean.
            for directory in broker.logs:
                directory.close(broker.epoch)
        await self._world.workers.close()
        if self._endpoint is not None:
            self._endpoint.close()
        self._directories.release()

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
        self._membership = ClusterMembership(self._world, door, tail, defaults, snapshot_bytes, self._fail)
        await self._membership.join()
        return door, tail

    async def _identity(self, door: LocalDoor) -> BrokerIdentity:
        """Who this node is; its directories must belong to the coordinator's cluster."""
        settings = self._settings
        cluster_id = await door.cluster_id(self._directories.likely_cluster_id)
        self._directories.identify(cluster_id)
        return BrokerIdentity(settings.node_id, cluster_id, settings.advertised_host, settings.advertised_port)

    async def _serve_from(self, tail: MetadataTail, identity: BrokerIdentity) -> Broker:
        """Open the logs that the metadata gives this node, and bind the port they will be served on."""
        membership, world = self._membership, self._world
        assert membership is not None
        logs = self._log_directories()
        metrics = BrokerMetrics(self.metrics, world.clock.monotonic_ms())
        groups, transactions = self._group_coordinator(), self._transaction_coordinator()
        broker = Broker(world, identity, self._config, logs, groups, transactions, metrics, membership)
        self.broker = broker
        transactions.send_markers = MarkerSender(broker).send
        groups.on_fatal = transactions.on_fatal = self._fail
        broker.on_reconfigured = self._reconfigure
        view = NodeView(broker, self._connections, self._memory, lambda: self._state, lambda: membership.is_controller)
        register_broker_gauges(self.metrics, view)
        self._state = RECOVERY
        found = self._find(broker)
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

    def _find(self, broker: Broker) -> list[Found]:
        """The logs that lie in the directories; what is of no use any more is retired."""
        disk, online, replicas = self._world.disk, broker.logs.online, broker.replicas
        found = [one for place in online for one in find_partitions(disk, place)]
        replicas.retire_at_once([path for place in online for path in find_deleted(disk, place)])
        doubtful = undecided(disk, found, [place.directory_id for place in online])
        for one in doubtful:
            # Whoever has lost that directory for good removes the file, and goes on with what is here.
            logger.error(
                "offline log=%s, which may have moved to a directory that is not here: %s", one.path, MOVED_FILE
            )
        found = [one for one in found if one not in doubtful]
        moved = superseded(disk, found)
        for one in moved:
            replicas.retire_log(one.place, one.topic, one.index)
        self._unfinished = [one for place in online for one in find_unfinished(disk, place)]
        for unfinished in self._unfinished:
            retired = unfinished.path.removesuffix(FUTURE) + DELETED
            disk.rename(unfinished.path, retired)
            replicas.retire_at_once([retired])
        return [one for one in found if one not in moved]

    def _resume_moves(self, broker: Broker, moves: Moves) -> None:
        for one in self._unfinished:
            hosted = broker.replicas.by_name(one.topic)
            partition = None if hosted is None else hosted.partitions.get(one.index)
            if partition is None:
                continue
            try:
                moves.want(partition, one.place)
            except (KafkaStorageError, OSError) as error:
                logger.warning("not moved log=%s reason=%r", partition.name, str(error))

    def _reconfigure(self, config: BrokerConfig) -> None:
        self._connections.limits = connection_limits(config, self._settings.open_files_allowed)
        self._group_settings = group_settings(config)
        assert self.broker is not None, "only a broker learns of changes"
        self.broker.groups.reconfigure(self._group_settings)
        if self._cleaning is not None:
            self._cleaning.reconfigure(config)

    async def _adopt(self, found: list[Found], image: Image) -> bool:
        """The first node of a cluster takes over the topics that lie in its directory."""
        if image.offset >= 0:
            return False
        assert self._membership is not None
        return bool(await self._membership.submit(AdoptRequest(self._settings.node_id, topics_to_adopt(found)), 0))

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

    def _image(self) -> Image:
        assert self.broker is not None
        return self.broker.image

    def _transaction_coordinator(self) -> TransactionCoordinator:
        world, settings = self._world, transaction_settings(self._config)
        coordinator = TransactionCoordinator(
            lambda: TransactionMachine(settings, self._producer_id_at_hand), world.clock, world.async_disk
        )
        coordinator.load_buffer_size = self._config["transaction.state.log.load.buffer.size"]
        return coordinator

    def _producer_id_at_hand(self) -> int:
        assert self.broker is not None
        return self.broker.producer_ids.at_hand()

    def _group_coordinator(self) -> GroupCoordinator:
        world, config = self._world, self._config
        counts = GroupCounts()
        cluster = GroupCluster(self._image, lambda group_id: self._image().config_of(GROUP, group_id))
        coordinator = GroupCoordinator(
            lambda: GroupMachine(self._group_settings, cluster, world.entropy.random_bytes, counts),
            world.clock,
            world.async_disk,
        )
        coordinator.load_buffer_size = config["offsets.load.buffer.size"]
        coordinator.codec = Codec(config["offsets.topic.compression.codec"])
        register_group_gauges(self.metrics, coordinator, counts)
        return coordinator

    async def _bind(self, broker: Broker) -> Listener:
        settings, config = self._settings, self._config
        dispatcher = Dispatcher(routes_of(HANDLERS), broker, broker.metrics)
        dispatcher.warm(HOT_APIS)
        connection_settings = ConnectionSettings(
            scratch=bytearray(SCRATCH_SIZE),
            max_frame_size=config["socket.request.max.bytes"],
            async_disk=self._world.async_disk,
            poison_frames=config["levada.poison.buffers"],
            memory=self._memory,
            unsent=broker.unsent,
            perf_ns=self._world.clock.perf_ns,
        )
        try:
            return await self._world.net.listen(
                settings.listen_host,
                settings.listen_port,
                lambda: ServerConnection(dispatcher, connection_settings, self._connections),
                self._backlog,
            )
        except OSError as error:
            raise cannot_listen(error, settings.listen_host, settings.listen_port, "listeners (--listen)") from error

    def _start_upkeep(self, broker: Broker) -> None:
        config = self._config
        intervals = Intervals(
            checkpoint_ms=config["log.flush.offset.checkpoint.interval.ms"],
            retention_check_ms=config["log.retention.check.interval.ms"],
            first_retention_check_ms=config["log.initial.task.delay.ms"],
            producer_check_ms=config["producer.id.expiration.check.interval.ms"],
        )
        self._upkeep = Upkeep(self._world, broker.logs, broker.replicas, broker.flushing, intervals, self._fail)
        self._upkeep.start()
        figures = CleaningFigures()
        now_ms = self._world.clock.now_ms
        register_cleaning_gauges(self.metrics, [one.absolute_directory for one in broker.logs], figures, now_ms)
        self._cleaning = LogCleaning(self._world, broker.logs, broker.flushing, broker.config, figures, self._fail)
        self._cleaning.start()
        assert self._membership is not None
        usage = DiskUsage(broker.logs, self._world.clock, config["levada.disk.usage.warn.percent"])
        self._watch = DirectoryWatch(broker, self._membership, usage, self._fail)
        self._watch.start()
        self._moves = Moves(self._world, broker, self._cleaning)
        broker.moves = self._moves
        self._resume_moves(broker, self._moves)
        self._ticking = start("tick of the metrics", self._tick(broker))

    async def _tick(self, broker: Broker) -> None:
        """Rates are averages over time, so somebody has to count it."""
        while True:
            await asyncio.sleep(METRICS_TICK_SECONDS)
            broker.metrics.fetch_session_evictions.count = broker.fetch_sessions.evictions
            broker.metrics.tick(self._world.clock.monotonic_ms())

    async def _open_endpoint(self) -> None:
        """Before recovery, which may take long: whoever asks learns that this node lives and is not ready."""
        port = self._config["levada.metrics.port"]
        if port:
            self._endpoint = MetricsEndpoint(self.metrics, lambda: self._state == RUNNING)
            host = self._settings.listen_host
            try:
                await self._endpoint.start(self._world.net, host, port)
            except OSError as error:
                raise cannot_listen(error, host, port, "levada.metrics.port") from error
