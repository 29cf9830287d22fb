"""Kafka's gauges of a broker, read through a small view of it when metrics are collected."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from levada.model.metrics import Registry, Sample, Value

NOT_RUNNING, STARTING, RECOVERY, RUNNING = 0, 1, 2, 3
PENDING_CONTROLLED_SHUTDOWN, SHUTTING_DOWN = 6, 7
"""Kafka's numbers for `BrokerFigures.state`."""

NO_TAGS: Final[Mapping[str, str]] = {}

_PARTITION: Final = "kafka.cluster:type=Partition,name="
_LOG: Final = "kafka.log:type=Log,name="
_REPLICAS: Final = "kafka.server:type=ReplicaManager,name="
_PURGATORY: Final = "kafka.server:type=DelayedOperationPurgatory,name="


@dataclass(frozen=True, slots=True)
class PartitionFigures:
    """One replica on this broker whose log can be read."""

    topic: str
    partition: int
    is_leader: bool
    replicas: int
    in_sync_replicas: int
    min_in_sync_replicas: int
    log_size: int
    retention_bytes: int
    """What its log may grow to; none of 0 or below."""
    segments: int
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    last_stable_offset: int
    producer_ids: int

    @property
    def is_under_replicated(self) -> bool:
        return self.is_leader and self.in_sync_replicas < self.replicas

    @property
    def is_under_min_isr(self) -> bool:
        return self.is_leader and self.in_sync_replicas < self.min_in_sync_replicas

    @property
    def is_at_min_isr(self) -> bool:
        return self.is_leader and self.in_sync_replicas == self.min_in_sync_replicas

    @property
    def retention_size_percent(self) -> int:
        """How full the log is; 0 where it has no limit."""
        return 100 * self.log_size // self.retention_bytes if self.retention_bytes > 0 else 0


@dataclass(frozen=True, slots=True)
class BrokerFigures:
    """What is true of the broker as a whole."""

    state: int
    cluster_id: str
    offline_replicas: int = 0
    offline_log_directories: int = 0
    log_directories: Mapping[str, bool] = field(default_factory=dict)
    """Each with whether it is offline."""
    delayed_operations: Mapping[str, int] = field(default_factory=dict)
    """Requests that wait, by Kafka's name of the operation: Produce, Fetch, DeleteRecords, ..."""
    fetch_sessions: int = 0
    fetch_session_partitions: int = 0
    memory_pool_used: int = 0
    memory_pool_available: int = 0
    connections: Mapping[str, int] = field(default_factory=dict)
    """Open connections by listener."""
    last_applied_record_offset: int = -1
    """Of the cluster's metadata log."""


@dataclass(frozen=True, slots=True)
class ControllerFigures:
    """What a controller knows of the cluster; all zero on a broker that is none."""

    is_active: bool = False
    topics: int = 0
    partitions: int = 0
    offline_partitions: int = 0
    fenced_brokers: int = 0
    active_brokers: int = 0


class BrokerGaugesView(Protocol):
    """What the node tells its gauges, at each scrape anew."""

    def partitions(self) -> Iterable[PartitionFigures]:
        """Taken in slices, between which the broker works on: partitions may come and go meanwhile."""
        ...

    def broker(self) -> BrokerFigures: ...

    def controller(self) -> ControllerFigures: ...


def register_broker_gauges(registry: Registry, view: BrokerGaugesView) -> None:
    registry.add_source(lambda: _broker(view.broker()))
    registry.add_source(lambda: _controller(view.controller()))
    registry.add_source(lambda: _partitions(view.partitions()))


def _broker(figures: BrokerFigures) -> Iterator[Sample]:
    yield _gauge("kafka.server:type=KafkaServer,name=BrokerState", figures.state)
    yield _gauge("kafka.server:type=KafkaServer,name=ClusterId", figures.cluster_id)
    yield _gauge(f"{_REPLICAS}OfflineReplicaCount", figures.offline_replicas)
    yield _gauge("kafka.log:type=LogManager,name=OfflineLogDirectoryCount", figures.offline_log_directories)
    for directory, is_offline in figures.log_directories.items():
        tags = {"logDirectory": directory}
        yield _gauge("kafka.log:type=LogManager,name=LogDirectoryOffline", int(is_offline), tags)
    for operation, waiting in figures.delayed_operations.items():
        tags = {"delayedOperation": operation}
        yield _gauge(f"{_PURGATORY}PurgatorySize", waiting, tags)
        yield _gauge(f"{_PURGATORY}NumDelayedOperations", waiting, tags)
    yield _gauge("kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions", figures.fetch_sessions)
    cached = figures.fetch_session_partitions
    yield _gauge("kafka.server:type=FetchSessionCache,name=NumIncrementalFetchPartitionsCached", cached)
    yield _gauge("kafka.network:type=SocketServer,name=MemoryPoolUsed", figures.memory_pool_used)
    yield _gauge("kafka.network:type=SocketServer,name=MemoryPoolAvailable", figures.memory_pool_available)
    for listener, count in figures.connections.items():
        # One loop does what Kafka's network threads do.
        tags = {"listener": listener, "networkProcessor": "0"}
        yield Sample("kafka.server:type=socket-server-metrics", tags, "attributes", {"connection-count": count})
    applied = {"last-applied-record-offset": figures.last_applied_record_offset}
    yield Sample("kafka.server:type=broker-metadata-metrics", {}, "attributes", applied)


def _controller(figures: ControllerFigures) -> Iterator[Sample]:
    for name, value in (
        ("ActiveControllerCount", int(figures.is_active)),
        ("GlobalTopicCount", figures.topics),
        ("GlobalPartitionCount", figures.partitions),
        ("OfflinePartitionsCount", figures.offline_partitions),
        ("FencedBrokerCount", figures.fenced_brokers),
        ("ActiveBrokerCount", figures.active_brokers),
    ):
        yield _gauge(f"kafka.controller:type=KafkaController,name={name}", value)


def _partitions(partitions: Iterable[PartitionFigures]) -> Iterator[Sample]:
    """The gauges of each partition, and then the counts over all of them, in one pass."""
    totals = dict.fromkeys(
        (
            "PartitionCount",
            "LeaderCount",
            "UnderReplicatedPartitions",
            "UnderMinIsrPartitionCount",
            "AtMinIsrPartitionCount",
            "ProducerIdCount",
        ),
        0,
    )
    for each in partitions:
        yield from _partition(each)
        totals["PartitionCount"] += 1
        totals["LeaderCount"] += each.is_leader
        totals["UnderReplicatedPartitions"] += each.is_under_replicated
        totals["UnderMinIsrPartitionCount"] += each.is_under_min_isr
        totals["AtMinIsrPartitionCount"] += each.is_at_min_isr
        totals["ProducerIdCount"] += each.producer_ids
    for name, total in totals.items():
        yield _gauge(_REPLICAS + name, total)


def _partition(figures: PartitionFigures) -> Iterator[Sample]:
    tags = {"topic": figures.topic, "partition": str(figures.partition)}
    yield _gauge(f"{_PARTITION}UnderReplicated", int(figures.is_under_replicated), tags)
    yield _gauge(f"{_PARTITION}UnderMinIsr", int(figures.is_under_min_isr), tags)
    yield _gauge(f"{_PARTITION}AtMinIsr", int(figures.is_at_min_isr), tags)
    yield _gauge(f"{_PARTITION}InSyncReplicasCount", figures.in_sync_replicas if figures.is_leader else 0, tags)
    yield _gauge(f"{_PARTITION}ReplicasCount", figures.replicas if figures.is_leader else 0, tags)
    yield _gauge(f"{_PARTITION}LastStableOffsetLag", figures.high_watermark - figures.last_stable_offset, tags)
    yield _gauge(f"{_LOG}Size", figures.log_size, tags)
    yield _gauge(f"{_LOG}NumLogSegments", figures.segments, tags)
    yield _gauge(f"{_LOG}LogStartOffset", figures.log_start_offset, tags)
    yield _gauge(f"{_LOG}LogEndOffset", figures.log_end_offset, tags)
    yield _gauge(f"{_LOG}RetentionSizeInPercent", figures.retention_size_percent, tags)


def _gauge(family: str, value: Value, tags: Mapping[str, str] = NO_TAGS) -> Sample:
    return Sample(family, tags, "gauge", {"Value": value})
