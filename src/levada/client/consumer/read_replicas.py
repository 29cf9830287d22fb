"""From which broker each assigned partition is read: its leader, or a replica that is nearer (KIP-392)."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from levada.client.cluster import NO_NODE, Cluster, ClusterView
from levada.client.consumer.subscription import AssignedPartition, Subscriptions
from levada.client.types import TopicPartition


class ReadReplica(NamedTuple):
    partition: TopicPartition
    state: AssignedPartition
    topic_id: bytes
    leader_epoch: int


class ReadReplicas:
    """Kept until the view, the assignment or a replica changes: it is asked for with each fetch."""

    def __init__(self, cluster: Cluster, subscriptions: Subscriptions) -> None:
        self._cluster = cluster
        self._subscriptions = subscriptions
        self._view: ClusterView | None = None
        self._version = -1
        self._valid_until_ms: float = 0
        self._by_node: dict[int, list[ReadReplica]] = {}

    def forget(self) -> None:
        self._view = None

    def by_node(self, now_ms: int) -> Mapping[int, Sequence[ReadReplica]]:
        """The partitions to read from each broker; those without a leader are left out."""
        view = self._cluster.view
        version = self._subscriptions.assignment_version
        if view is not self._view or version != self._version or now_ms >= self._valid_until_ms:
            self._view, self._version = view, version
            self._valid_until_ms = float("inf")
            self._by_node = {}
            for partition, state in self._subscriptions.states():
                topic = view.topics.get(partition.topic)
                if topic is None or partition.partition >= len(topic.partitions):
                    continue
                known = topic.partitions[partition.partition]
                replica = self._replica(state, now_ms)
                node_id = known.leader if replica is None else replica
                if node_id != NO_NODE:
                    source = ReadReplica(partition, state, topic.topic_id, known.leader_epoch)
                    self._by_node.setdefault(node_id, []).append(source)
        return self._by_node

    def _replica(self, state: AssignedPartition, now_ms: int) -> int | None:
        """The leader is asked again after a while, and when the replica is not up."""
        if state.read_replica is None:
            return None
        if state.read_replica_until_ms <= now_ms or state.read_replica not in self._cluster.view.brokers:
            state.read_replica = None
            return None
        self._valid_until_ms = min(self._valid_until_ms, state.read_replica_until_ms)
        return state.read_replica
