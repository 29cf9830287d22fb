"""Topics as `levada topics --describe` shows them: gathered from a cluster."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from levada.client.admin import (
        ConfigEntry,
        PartitionDescription,
        PartitionReassignment,
        TopicDescription,
        TopicId,
    )
    from levada.client.blocking import Admin
    from levada.client.types import TopicPartition

MIN_IN_SYNC: Final = "min.insync.replicas"


@dataclass(frozen=True, slots=True)
class DescribedPartition:
    topic: str
    info: "PartitionDescription"
    move: "PartitionReassignment | None"
    """Where it is on its way to, if it is."""
    min_in_sync: int
    is_leader_up: bool

    @property
    def replication_factor(self) -> int:
        """Of a partition that moves: without the replicas that are only coming."""
        if self.move is None or not {*self.move.adding, *self.move.removing}.intersection(self.info.replicas):
            return len(self.info.replicas)
        return len(self.move.replicas) - len(self.move.adding)

    @property
    def is_under_replicated(self) -> bool:
        return len(self.info.in_sync) < self.replication_factor

    @property
    def is_under_min_in_sync(self) -> bool:
        return self.info.leader is None or len(self.info.in_sync) < self.min_in_sync

    @property
    def is_at_min_in_sync(self) -> bool:
        return len(self.info.in_sync) == self.min_in_sync


@dataclass(frozen=True, slots=True)
class DescribedTopic:
    name: str
    topic_id: "TopicId | None"
    configs: Mapping[str, str | None]
    """Those that are not Kafka's own defaults."""
    partitions: Sequence[DescribedPartition]


def describe(admin: "Admin", wanted: "Sequence[str | TopicId]", arguments: argparse.Namespace) -> list[DescribedTopic]:
    from levada.client.admin import ConfigResource
    from levada.client.types import TopicPartition

    if not wanted:
        return []
    found = admin.describe_topics(wanted, partitions_per_page=arguments.partition_size_limit_per_response)
    topics = [found[one] for one in wanted]
    configs = admin.describe_configs([ConfigResource.topic(topic.name) for topic in topics])
    alive = {broker.broker_id for broker in admin.describe_cluster().brokers}
    moves = _moves(admin, [TopicPartition(topic.name, one.index) for topic in topics for one in topic.partitions])
    return [_topic(topic, configs[ConfigResource.topic(topic.name)], moves, alive) for topic in topics]


def _moves(admin: "Admin", partitions: "list[TopicPartition]") -> "dict[TopicPartition, PartitionReassignment]":
    from levada.client.errors import ClusterAuthorizationFailed, UnsupportedVersion

    try:
        return admin.list_partition_reassignments(partitions)
    except (ClusterAuthorizationFailed, UnsupportedVersion):
        # A user who may describe a topic need not be allowed to see the cluster's moves.
        return {}


def _topic(
    topic: "TopicDescription",
    configs: "Mapping[str, ConfigEntry]",
    moves: "Mapping[TopicPartition, PartitionReassignment]",
    alive: set[int],
) -> DescribedTopic:
    from levada.client.types import TopicPartition

    min_in_sync = int(configs[MIN_IN_SYNC].value or 1)
    return DescribedTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        configs={name: entry.value for name, entry in configs.items() if not entry.is_default},
        partitions=[
            DescribedPartition(
                topic=topic.name,
                info=one,
                move=moves.get(TopicPartition(topic.name, one.index)),
                min_in_sync=min_in_sync,
                is_leader_up=one.leader in alive,
            )
            for one in topic.partitions
        ],
    )
