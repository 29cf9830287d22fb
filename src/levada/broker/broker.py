"""What every handler can reach: this broker's place in the cluster, its replicas, and requests that wait."""

import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol, TypeVar

from levada.broker.broker_config import BrokerConfig, log_config
from levada.broker.delayed import DelayedOperations
from levada.broker.fetch_sessions import FetchSessions
from levada.broker.flushing import Flushing
from levada.broker.group_coordinator import GroupCoordinator
from levada.broker.group_warnings import warn_of_group_settings
from levada.broker.markers import MarkerSender
from levada.broker.metrics import BrokerMetrics
from levada.broker.partition import Partition
from levada.broker.producer_ids import ProducerIds
from levada.broker.replicas import Replicas
from levada.broker.search_turns import SearchTurns
from levada.broker.settings import BrokerIdentity, broker_settings, group_settings, transaction_settings
from levada.broker.transaction_coordinator import TransactionCoordinator
from levada.groups import GroupCluster, GroupCounts, GroupMachine
from levada.metadata.delta import Delta
from levada.metadata.image import BROKER, GROUP, TOPIC, Image, Resource
from levada.model.errors import KafkaStorageError, NotLeaderOrFollower, UnknownTopicId, UnknownTopicOrPartition
from levada.model.hashes import uuid_to_text
from levada.model.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from levada.net.unsent_memory import UnsentMemory
from levada.protocol.declare import NO_UUID, AnsweredBy
from levada.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from levada.records import Codec
from levada.storage.log_config import LogConfig
from levada.storage.log_directories import LogDirectories
from levada.storage.log_directory import LogDirectory
from levada.transactions import TransactionMachine
from levada.world.background import OnFatal
from levada.world.clock import Clock
from levada.world.world import World

logger = logging.getLogger(__name__)

Reply = TypeVar("Reply")


class Controller(Protocol):
    """The cluster's controller, in this process or at another broker."""

    @property
    def controller_id(self) -> int:
        """The broker that has it, or any that will pass requests on to it."""
        ...

    def submit(self, request: AnsweredBy[Reply], version: int) -> Awaitable[Reply]:
        """The reply, once the decision counts and this broker knows of it; ApiError if there is none."""
        ...

    def knows_broker(self, client_id: str | None) -> bool:
        """Whether a client is a broker that the controller in this process has registered; True if it is elsewhere."""
        ...

    def decide(self, request: AnsweredBy[Reply], version: int) -> Awaitable[Reply]:
        """The reply, for another broker, of the controller in this process; NotController if it is elsewhere."""
        ...

    def changed(self, offset: int, seconds: float) -> Awaitable[int]:
        """Where the metadata log ends, once that is behind an offset or the time is up; NotController as above."""
        ...


class MovingReplica(NamedTuple):
    """The copy of a replica that will take its place, as far as it is made."""

    partition: Partition
    target: LogDirectory
    size: int
    end_offset: int


class ReplicaMoves(Protocol):
    """What moves replicas between the directories of this broker."""

    def want(self, partition: Partition, target: LogDirectory) -> None:
        """Move a replica to a directory, or leave it there; OSError if that cannot be begun."""
        ...

    def under_way(self) -> list[MovingReplica]: ...


class Broker:
    def __init__(
        self,
        world: World,
        identity: BrokerIdentity,
        config: BrokerConfig,
        logs: LogDirectories,
        metrics: BrokerMetrics,
        controller: Controller,
        on_fatal: OnFatal,
    ) -> None:
        self.identity = identity
        self.config = config
        self.settings = broker_settings(config)
        self.clock: Clock = world.clock
        self.entropy = world.entropy
        self.workers = world.workers
        self.search_turns = SearchTurns(world.clock, world.workers)
        self.unsent = UnsentMemory()
        self.flushing = Flushing(world.async_disk, world.clock, metrics.log_flushes)
        self.logs = logs
        self.metrics = metrics
        self.controller = controller
        self.image = Image()
        self._configs = self.image.configs
        self.epoch = -1
        """Of this broker's registration; -1 before it has one."""
        self.replicas = Replicas(
            world.disk,
            logs,
            world.clock,
            world.entropy,
            node_id=identity.node_id,
            config_of=self.log_config_of,
            begin_flush=self.flushing.begin,
        )
        self.replicas.on_made = self.follow_coordinators
        self.producer_ids = ProducerIds(self._ask_for_producer_ids)
        self.group_counts = GroupCounts()
        self.groups = self._group_coordinator(world, on_fatal)
        self.transactions = self._transaction_coordinator(world, on_fatal)
        self.delayed = DelayedOperations()
        self.fetch_sessions = FetchSessions(world.entropy.below, config["max.incremental.fetch.session.cache.slots"])
        self.moves: ReplicaMoves | None = None
        """There is nothing to move before the broker is up."""
        self.reconfigurables: list[Callable[[BrokerConfig], None]] = []
        """Called with the whole configuration when some of it has changed."""

    def load(self, image: Image) -> None:
        """Begin with an image, before any log is open."""
        self.image = image
        self._configs = image.configs
        self.reconfigure(image)

    async def follow(self, delta: Delta, image: Image) -> None:
        """Take over what the metadata log says now; clients are told of a topic when its logs are there."""
        self._configs = image.configs
        if any(resource.type == BROKER for resource in delta.touched_configs):
            self.reconfigure(image)
            self.replicas.reconfigure(None)
        else:
            self.replicas.reconfigure(name for kind, name in delta.touched_configs if kind == TOPIC)
        await self.replicas.follow(delta, image)
        self.image = image
        self.follow_coordinators()
        _log_changes(delta, image)
        for kind, name in delta.touched_configs:
            if kind == GROUP:
                warn_of_group_settings(self.config, name, image.config_of(GROUP, name))
        removed = [topic.name for topic in delta.removed_topics.values()]
        for name in removed:
            self.metrics.forget_topic(name)
        touched = [image.topic_names[topic_id] for topic_id in delta.touched_topics]
        if touched or removed:
            self.groups.on_topics([*touched, *removed])
        if removed:
            self.groups.forget_topics(removed)

    def close(self) -> None:
        """Coordinate nothing any more, and answer the requests that wait."""
        self.groups.close()
        self.transactions.close()
        self.delayed.close()

    def follow_coordinators(self) -> None:
        """Coordinate the groups and transactions whose partitions this broker leads."""
        coordinators: tuple[tuple[str, GroupCoordinator | TransactionCoordinator], ...] = (
            (CONSUMER_OFFSETS, self.groups),
            (TRANSACTION_STATE, self.transactions),
        )
        for name, coordinator in coordinators:
            topic, hosted = self.image.topics.get(name), self.replicas.by_name(name)
            count = 0 if topic is None else len(topic.partitions)
            coordinator.follow(count, {} if hosted is None else hosted.partitions)

    def reconfigure(self, image: Image) -> None:
        """Go by the dynamic configuration of an image."""
        node_id = self.identity.node_id
        self.config = self.config.with_dynamic(image.config_of(BROKER, ""), image.config_of(BROKER, str(node_id)))
        for fault in self.config.ignored:
            logger.warning("ignored setting: %s", fault)
        self.settings = broker_settings(self.config)
        self.fetch_sessions.max_sessions = self.config["max.incremental.fetch.session.cache.slots"]
        self._group_settings = group_settings(self.config)
        self.groups.reconfigure(self._group_settings)
        for reconfigure in self.reconfigurables:
            reconfigure(self.config)

    def log_config_of(self, topic: str) -> LogConfig:
        return log_config(self.config, self._configs.get(Resource(TOPIC, topic), {}))

    def _group_coordinator(self, world: World, on_fatal: OnFatal) -> GroupCoordinator:
        self._group_settings = group_settings(self.config)
        cluster = GroupCluster(lambda: self.image, lambda group_id: self.image.config_of(GROUP, group_id))
        return GroupCoordinator(
            lambda: GroupMachine(self._group_settings, cluster, world.entropy.random_bytes, self.group_counts),
            world.clock,
            world.async_disk,
            on_fatal=on_fatal,
            load_buffer_size=self.config["offsets.load.buffer.size"],
            codec=Codec(self.config["offsets.topic.compression.codec"]),
        )

    def _transaction_coordinator(self, world: World, on_fatal: OnFatal) -> TransactionCoordinator:
        settings = transaction_settings(self.config)
        return TransactionCoordinator(
            lambda: TransactionMachine(settings, self.producer_ids.at_hand),
            world.clock,
            world.async_disk,
            MarkerSender(self).send,
            on_fatal=on_fatal,
            load_buffer_size=self.config["transaction.state.log.load.buffer.size"],
        )

    def _ask_for_producer_ids(self) -> Awaitable[AllocateProducerIdsResponse]:
        request = AllocateProducerIdsRequest(broker_id=self.identity.node_id, broker_epoch=self.epoch)
        return self.controller.submit(request, 0)

    def replica(self, name: str, index: int) -> Partition:
        """The replica of this broker, whether or not it leads."""
        topic = self.replicas.by_name(name)
        partition = None if topic is None else topic.partitions.get(index)
        if partition is not None:
            return partition
        if topic is not None and index in topic.offline:
            raise KafkaStorageError(f"Partition {name}-{index} is offline")
        known = self.image.topics.get(name)
        if known is not None and 0 <= index < len(known.partitions):
            raise NotLeaderOrFollower("This server does not have this topic-partition.")
        raise UnknownTopicOrPartition("This server does not host this topic-partition.")

    def partition(self, name: str, topic_id: bytes, index: int) -> Partition:
        """The replica of this broker if it leads: no other can answer for the partition.

        By id where the request has one, else by name.
        """
        if topic_id != NO_UUID or not name:
            topic = self.replicas.by_id(topic_id)
            known = self.image.topic_names.get(topic_id)
            if topic is None and known is None:
                raise UnknownTopicId("This server does not host this topic ID.")
            name = known or name
        else:
            topic = self.replicas.by_name(name)
        partition = None if topic is None else topic.partitions.get(index)
        if partition is None:
            partition = self.replica(name if topic is None else topic.name, index)
        if not partition.is_leader:
            raise NotLeaderOrFollower("This server is not the leader for that topic-partition.")
        return partition


def _log_changes(delta: Delta, image: Image) -> None:
    """One line for each thing that an operator may look for later; elections are too many to tell."""
    for topic_id in delta.touched_topics:
        topic, before = image.topic_by_id(topic_id), delta.before.topic_by_id(topic_id)
        assert topic is not None
        if before is None:
            logger.info(
                "created topic=%s id=%s partitions=%d", topic.name, uuid_to_text(topic_id), len(topic.partitions)
            )
        elif len(before.partitions) < len(topic.partitions):
            logger.info("grown topic=%s partitions=%d", topic.name, len(topic.partitions))
    for resource in delta.touched_configs:
        # Their names and not their values, of which some are secrets.
        settings = ",".join(sorted(image.configs.get(resource, {})))
        logger.info("configured %s=%s settings=%s", _KINDS.get(resource.type), resource.name, settings)


_KINDS = {TOPIC: "topic", BROKER: "broker", GROUP: "group"}
