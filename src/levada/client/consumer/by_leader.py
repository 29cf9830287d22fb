"""Sorts partitions by the broker that leads each."""

from collections.abc import Iterable

from levada.client.cluster import NO_NODE, Cluster
from levada.client.errors import KafkaError, error_for
from levada.client.types import TopicPartition
from levada.model.error_codes import ErrorCode


def by_leader(
    cluster: Cluster, partitions: Iterable[TopicPartition], failures: dict[TopicPartition, KafkaError]
) -> dict[int, list[TopicPartition]]:
    """The partitions of each leader; those that have none become failures that pass."""
    groups: dict[int, list[TopicPartition]] = {}
    for partition in partitions:
        leader = cluster.view.leader(*partition)
        if leader != NO_NODE:
            groups.setdefault(leader, []).append(partition)
        else:
            failures[partition] = _without_leader(cluster, partition)
    return groups


def _without_leader(cluster: Cluster, partition: TopicPartition) -> KafkaError:
    topic = cluster.view.topics.get(partition.topic)
    fault = cluster.view.faults.get(partition.topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic is not None and partition.partition < len(topic.partitions):
        fault = ErrorCode.LEADER_NOT_AVAILABLE
    return error_for(fault, context=str(partition))
