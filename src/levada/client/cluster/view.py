"""What a client knows of a cluster: its brokers, its topics and who leads their partitions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from levada.model.error_codes import ErrorCode
from levada.protocol.declare import NO_UUID
from levada.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

NO_NODE = -1
NO_EPOCH = -1


@dataclass(frozen=True, slots=True, order=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class BrokerView:
    node_id: int
    address: Address
    rack: str | None


@dataclass(frozen=True, slots=True)
class PartitionView:
    index: int
    leader: int
    """NO_NODE while there is none."""
    leader_epoch: int
    replicas: Sequence[int]
    in_sync: Sequence[int]
    offline: Sequence[int]


@dataclass(frozen=True, slots=True)
class TopicView:
    name: str
    topic_id: bytes
    is_internal: bool
    partitions: Sequence[PartitionView]
    """In the order of their indexes, which have no gaps."""
    authorized_operations: int


@dataclass(frozen=True, slots=True)
class ClusterView:
    cluster_id: str | None = None
    controller_id: int = NO_NODE
    brokers: Mapping[int, BrokerView] = field(default_factory=lambda: MappingProxyType({}))
    topics: Mapping[str, TopicView] = field(default_factory=lambda: MappingProxyType({}))
    faults: Mapping[str, ErrorCode] = field(default_factory=lambda: MappingProxyType({}))
    """Why a topic that was asked for is not among the topics."""
    names: Mapping[bytes, str] = field(default_factory=lambda: MappingProxyType({}))
    """Topics by their ids."""

    def leader(self, topic: str, partition: int) -> int:
        """The broker that leads a partition; NO_NODE when there is none, or none is known."""
        known = self.topics.get(topic)
        if known is None or partition >= len(known.partitions):
            return NO_NODE
        return known.partitions[partition].leader


def read_view(response: MetadataResponse, before: ClusterView) -> ClusterView:
    """The view after a response; a leader older than the one known is not believed again (KIP-320)."""
    topics: dict[str, TopicView] = {}
    faults: dict[str, ErrorCode] = {}
    for topic in response.topics:
        if topic.name is None:
            continue
        if topic.error_code == ErrorCode.NONE:
            topics[topic.name] = _read_topic(topic, before.topics.get(topic.name))
        else:
            faults[topic.name] = _code(topic.error_code)
    brokers = {
        broker.node_id: BrokerView(broker.node_id, Address(broker.host, broker.port), broker.rack)
        for broker in response.brokers
    }
    names = {topic.topic_id: name for name, topic in topics.items() if topic.topic_id != NO_UUID}
    return ClusterView(response.cluster_id, response.controller_id, brokers, topics, faults, names)


def with_topics(view: ClusterView, more: ClusterView) -> ClusterView:
    """`more`, and the topics of `view` that it says nothing about."""
    kept = {name: topic for name, topic in view.topics.items() if name not in more.faults}
    topics = {**kept, **more.topics}
    names = {topic.topic_id: name for name, topic in topics.items() if topic.topic_id != NO_UUID}
    faults = {**view.faults, **more.faults}
    faults = {name: fault for name, fault in faults.items() if name not in more.topics}
    return ClusterView(more.cluster_id, more.controller_id, more.brokers, topics, faults, names)


def with_leader(view: ClusterView, topic: str, partition: int, leader: int, leader_epoch: int) -> ClusterView:
    """The view after a broker named another leader in its answer (KIP-951); older news change nothing."""
    known = view.topics.get(topic)
    if known is None or partition >= len(known.partitions) or leader not in view.brokers:
        return view
    old = known.partitions[partition]
    if leader_epoch <= old.leader_epoch:
        return view
    new = PartitionView(partition, leader, leader_epoch, old.replicas, old.in_sync, old.offline)
    partitions = [*known.partitions[:partition], new, *known.partitions[partition + 1 :]]
    changed = TopicView(known.name, known.topic_id, known.is_internal, partitions, known.authorized_operations)
    topics = {**view.topics, topic: changed}
    return ClusterView(view.cluster_id, view.controller_id, view.brokers, topics, view.faults, view.names)


def _read_topic(topic: MetadataResponseTopic, before: TopicView | None) -> TopicView:
    known = before.partitions if before is not None and before.topic_id == topic.topic_id else ()
    assert topic.name is not None
    partitions = [
        _read_partition(partition, known[index] if index < len(known) else None)
        for index, partition in enumerate(sorted(topic.partitions, key=lambda each: each.partition_index))
    ]
    return TopicView(topic.name, topic.topic_id, topic.is_internal, partitions, topic.topic_authorized_operations)


def _read_partition(partition: MetadataResponsePartition, before: PartitionView | None) -> PartitionView:
    if before is not None and partition.leader_epoch < before.leader_epoch:
        return before
    return PartitionView(
        partition.partition_index,
        partition.leader_id,
        partition.leader_epoch,
        partition.replica_nodes,
        partition.isr_nodes,
        partition.offline_replicas,
    )


def _code(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
