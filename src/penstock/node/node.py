"""The composition root: wires one node onto a World, starts it, stops it."""

import asyncio
import logging
from dataclasses import replace

from penstock.broker.broker import Broker
from penstock.broker.dispatch import Dispatcher
from penstock.broker.group_coordinator import GroupCoordinator
from penstock.broker.handlers import HANDLERS
from penstock.broker.producer_ids import ProducerIds
from penstock.broker.route import routes_of
from penstock.broker.settings import BrokerSettings
from penstock.broker.topics import Topics
from penstock.groups import Groups, GroupSettings
from penstock.model.config import Config, ConfigError
from penstock.net.connection import ConnectionSettings, OpenConnections, ServerConnection
from penstock.net.frames import SCRATCH_SIZE
from penstock.node.limits import files_kept_open, open_files_warning
from penstock.node.opening import open_topics
from penstock.node.settings import NodeSettings, retention_ms, without_meaning
from penstock.node.upkeep import Intervals, Upkeep
from penstock.protocol.api import ApiKey
from penstock.records import COMPILED
from penstock.storage.identity import Identity, load_or_create_identity
from penstock.storage.log_config import LogConfig
from penstock.storage.log_directory import LogDirectory
from penstock.storage.open_files import DEFAULT_LIMIT
from penstock.world.disk import DirectoryLock
from penstock.world.net import Listener
from penstock.world.world import World

logger = logging.getLogger(__name__)

HOT_APIS = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA)
BROKER_EPOCH = 0
"""Until brokers register with a controller."""

GRACE_SECONDS = 1.0
"""How long a stopping node waits for replies, long polls among them, to leave."""


class Node:
    """One broker in one data directory."""

    def __init__(self, world: World, settings: NodeSettings) -> None:
        self._world = world
        self._settings = settings
        self._connections = OpenConnections()
        self._lock: DirectoryLock | None = None
        self._topics: Topics | None = None
        self._logs: LogDirectory | None = None
        self._upkeep: asyncio.Task[None] | None = None
        self._groups: GroupCoordinator | None = None
        self._listener: Listener | None = None

    @property
    def port(self) -> int:
        assert self._listener is not None, "the node has not been started"
        return self._listener.port

    async def start(self) -> None:
        """Recover the data directory and open the port; ConfigError or OSError when that cannot be."""
        settings, world = self._settings, self._world
        world.disk.make_directories(settings.data_directory)
        self._lock = self._claim()
        identity = load_or_create_identity(world.disk, settings.data_directory, settings.node_id, world.entropy)
        self._topics = await self._open_topics()
        for key in without_meaning(settings.config):
            logger.warning("config key=%s has no effect here", key)
        self._groups = GroupCoordinator(
            Groups(_group_settings(settings.config), world.entropy.random_bytes), world.clock
        )
        broker = self._broker(identity)
        dispatcher = Dispatcher(routes_of(HANDLERS), broker)
        dispatcher.warm(HOT_APIS)
        connection_settings = ConnectionSettings(
            scratch=bytearray(SCRATCH_SIZE),
            max_frame_size=settings.config["socket.request.max.bytes"],
            async_disk=world.async_disk,
            poison_frames=settings.config["penstock.poison.buffers"],
        )
        self._listener = await world.net.listen(
            settings.listen_host,
            settings.listen_port,
            lambda: ServerConnection(dispatcher, connection_settings, self._connections),
        )
        if not settings.advertised_port:
            broker.settings = replace(broker.settings, port=self.port)
        logger.info(
            "started node_id=%d cluster_id=%s topics=%d kernel=%s",
            settings.node_id,
            identity.cluster_id,
            len(self._topics.all()),
            "compiled" if COMPILED else "pure",
        )

    async def stop(self) -> None:
        """Finish what clients are owed, bring the logs to the disk, let go of the directory."""
        if self._listener is not None:
            self._listener.close()
        if self._groups is not None:
            self._groups.close()
        await self._connections.close(GRACE_SECONDS)
        if self._upkeep is not None:
            self._upkeep.cancel()
        if self._logs is not None:
            self._logs.close(BROKER_EPOCH)
        await self._world.workers.close()
        if self._lock is not None:
            self._lock.release()

    async def _open_topics(self) -> Topics:
        world, config = self._world, self._settings.config
        log_config = _log_config(config)
        logs = LogDirectory(
            world.disk,
            self._settings.data_directory,
            log_config,
            lambda bound: world.entropy.below(bound) if bound else 0,
            min(files_kept_open(self._settings.open_files_allowed), DEFAULT_LIMIT),
        )
        logs.begin()
        topics = Topics(world.disk, self._settings.data_directory, logs, world.entropy, world.clock)
        await open_topics(world, logs, topics, log_config, config["num.recovery.threads.per.data.dir"])
        segments = sum(len(log.segments) for log in logs.logs)
        warning = open_files_warning(self._settings.open_files_allowed, segments)
        if warning is not None:
            logger.warning("%s", warning)
        # Only now may a stop say that it was clean.
        self._logs = logs
        intervals = Intervals(
            checkpoint_ms=config["log.flush.offset.checkpoint.interval.ms"],
            retention_check_ms=config["log.retention.check.interval.ms"],
            delete_delay_ms=config["log.segment.delete.delay.ms"],
            producer_check_ms=config["producer.id.expiration.check.interval.ms"],
        )
        self._upkeep = asyncio.get_running_loop().create_task(Upkeep(world, logs, intervals).run())
        return topics

    def _claim(self) -> DirectoryLock:
        path = f"{self._settings.data_directory}/.lock"
        try:
            return self._world.disk.lock(path)
        except BlockingIOError:
            raise ConfigError(
                f"{self._settings.data_directory} is in use by another broker; stop it or choose another --data-dir"
            ) from None

    def _broker(self, identity: Identity) -> Broker:
        settings = self._settings
        config = settings.config
        assert self._topics is not None
        assert self._groups is not None
        return Broker(
            settings=BrokerSettings(
                node_id=settings.node_id,
                host=settings.advertised_host,
                port=settings.advertised_port,
                cluster_id=identity.cluster_id,
                partitions_per_topic=config["num.partitions"],
                auto_create_topics=config["auto.create.topics.enable"],
                max_fetch_bytes=config["fetch.max.bytes"],
            ),
            topics=self._topics,
            producer_ids=ProducerIds(self._world.disk, settings.data_directory),
            groups=self._groups,
            clock=self._world.clock,
            entropy=self._world.entropy,
            async_disk=self._world.async_disk,
        )


def _log_config(config: Config) -> LogConfig:
    roll_ms = config["log.roll.ms"]
    jitter_ms = config["log.roll.jitter.ms"]
    flush_ms = config["log.flush.interval.ms"]
    if flush_ms is None:
        flush_ms = config["log.flush.scheduler.interval.ms"]
    return LogConfig(
        segment_bytes=config["log.segment.bytes"],
        segment_ms=config["log.roll.hours"] * 3_600_000 if roll_ms is None else roll_ms,
        segment_jitter_ms=config["log.roll.jitter.hours"] * 3_600_000 if jitter_ms is None else jitter_ms,
        index_interval_bytes=config["log.index.interval.bytes"],
        max_index_bytes=config["log.index.size.max.bytes"],
        deletes_old_segments="delete" in config["log.cleanup.policy"],
        retention_ms=retention_ms(config),
        retention_bytes=config["log.retention.bytes"],
        flush_messages=config["log.flush.interval.messages"],
        flush_ms=flush_ms,
        producer_id_expiration_ms=config["producer.id.expiration.ms"],
        uses_log_append_time=config["log.message.timestamp.type"] == "LogAppendTime",
        max_message_bytes=config["message.max.bytes"],
    )


def _group_settings(config: Config) -> GroupSettings:
    return GroupSettings(
        initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
        min_session_timeout_ms=config["group.min.session.timeout.ms"],
        max_session_timeout_ms=config["group.max.session.timeout.ms"],
        max_size=config["group.max.size"],
        max_offset_metadata_size=config["offset.metadata.max.bytes"],
    )
