"""What the metadata records add up to: an immutable picture of the cluster at one offset of its log."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from levada.metadata.records import (
    NO_LEADER,
    BrokerEndpoint,
    BrokerFeature,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    TopicRecord,
)

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
"""Types of resources that have configurations."""

K = TypeVar("K")
V = TypeVar("V")


def nothing() -> Mapping[K, V]:
    return MappingProxyType({})


class Resource(NamedTuple):
    """Whose configuration it is; a broker without a name stands for the default of all brokers."""

    type: int
    name: str


RESERVED_IDS: Final = 100


def is_reserved(directory_id: bytes) -> bool:
    """Whether an id of a directory is one of those that Kafka keeps for replicas whose directory is not known."""
    return int.from_bytes(directory_id) < RESERVED_IDS


@dataclass(frozen=True, slots=True)
class PartitionState:
    index: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int = NO_LEADER
    leader_epoch: int = 0
    partition_epoch: int = 0
    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    directories: tuple[bytes, ...] = ()
    eligible: tuple[int, ...] = ()
    last_known_eligible: tuple[int, ...] = ()
    is_recovering: bool = False
    """Whether its leader was elected without having every committed record."""

    def directory_of(self, broker_id: int) -> bytes | None:
        """The id of the directory in which a broker has its replica, None if the broker has not said."""
        for replica, directory in zip(self.replicas, self.directories):
            if replica == broker_id and not is_reserved(directory):
                return directory
        return None


@dataclass(frozen=True, slots=True)
class TopicState:
    name: str
    topic_id: bytes
    partitions: tuple[PartitionState, ...] = ()


@dataclass(frozen=True, slots=True)
class BrokerState:
    broker_id: int
    epoch: int
    incarnation_id: bytes
    endpoints: tuple[BrokerEndpoint, ...] = ()
    features: tuple[BrokerFeature, ...] = ()
    rack: str | None = None
    is_fenced: bool = True
    is_shutting_down: bool = False
    log_dirs: tuple[bytes, ...] = ()

    def endpoint(self, listener: str) -> BrokerEndpoint | None:
        """Where clients of a listener reach it, None if it has no such listener."""
        return next((one for one in self.endpoints if one.name == listener), None)

    def has_online(self, directory_id: bytes | None) -> bool:
        """Whether a replica in this directory can be served; a broker that names no directories has one."""
        return directory_id is None or not self.log_dirs or directory_id in self.log_dirs


@dataclass(frozen=True, slots=True)
class Image:
    """Mappings are never changed after they were put here; a new image shares those that are the same."""

    offset: int = -1
    """Of the last record in it."""
    brokers: Mapping[int, BrokerState] = field(default_factory=nothing)
    topics: Mapping[str, TopicState] = field(default_factory=nothing)
    topic_names: Mapping[bytes, str] = field(default_factory=nothing)
    configs: Mapping[Resource, Mapping[str, str]] = field(default_factory=nothing)
    features: Mapping[str, int] = field(default_factory=nothing)
    next_producer_id: int = 0

    def topic_by_id(self, topic_id: bytes) -> TopicState | None:
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def config_of(self, type_: int, name: str) -> Mapping[str, str]:
        """What was set for a resource."""
        return self.configs.get(Resource(type_, name)) or nothing()

    def live_endpoint(self, broker_id: int, listener: str) -> BrokerEndpoint | None:
        """Where clients of a listener reach a broker, None if it does not live or has no such listener."""
        broker = self.brokers.get(broker_id)
        return None if broker is None or broker.is_fenced else broker.endpoint(listener)

    def live_brokers(self) -> list[BrokerState]:
        """The brokers that may be given work, by id."""
        return [broker for _, broker in sorted(self.brokers.items()) if not broker.is_fenced]

    def offline_replicas(self, partition: PartitionState) -> list[int]:
        """Those on brokers that do not live, or in directories that have failed."""
        return [one for one in partition.replicas if not self.is_online(partition, one)]

    def is_online(self, partition: PartitionState, broker_id: int) -> bool:
        """Whether a replica is on a broker that lives, in a directory that has not failed."""
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.is_fenced and broker.has_online(partition.directory_of(broker_id))

    @property
    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self.topics.values())

    def records(self) -> Iterator[MetadataRecord]:
        """Records that add up to this image: its snapshot."""
        for name, level in self.features.items():
            yield FeatureLevelRecord(name=name, feature_level=level)
        yield from map(_broker_record, self.brokers.values())
        for topic in self.topics.values():
            yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
            for partition in topic.partitions:
                yield partition_record(topic.topic_id, partition)
        for resource, values in self.configs.items():
            for name, value in values.items():
                yield ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
        if self.next_producer_id:
            yield ProducerIdsRecord(broker_id=-1, next_producer_id=self.next_producer_id)


def partition_record(topic_id: bytes, partition: PartitionState) -> PartitionRecord:
    return PartitionRecord(
        partition_id=partition.index,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing),
        adding_replicas=list(partition.adding),
        leader=partition.leader,
        leader_recovery_state=int(partition.is_recovering),
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        eligible_leader_replicas=list(partition.eligible) or None,
        last_known_elr=list(partition.last_known_eligible) or None,
    )


def _broker_record(broker: BrokerState) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=list(broker.endpoints),
        features=list(broker.features),
        rack=broker.rack,
        fenced=broker.is_fenced,
        in_controlled_shutdown=broker.is_shutting_down,
        log_dirs=list(broker.log_dirs),
    )
