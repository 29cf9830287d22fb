"""How `levada topics --describe` prints a topic: Kafka's lines, or JSON."""

import argparse
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from levada.cli.kit.terminal import paint
from levada.cli.topics.describing import DescribedPartition, DescribedTopic
from levada.cli.topics.flags import REPORTS

REPORTED: Final[dict[str, Callable[[DescribedPartition], bool]]] = {
    "under_replicated_partitions": lambda partition: partition.is_under_replicated,
    "unavailable_partitions": lambda partition: not partition.is_leader_up,
    "under_min_isr_partitions": lambda partition: partition.is_under_min_in_sync,
    "at_min_isr_partitions": lambda partition: partition.is_at_min_in_sync,
}
"""Which partitions each report is about."""


def lines_of(topic: DescribedTopic, arguments: argparse.Namespace) -> Iterator[str]:
    """The topic's line, unless only partitions of a kind are wanted, and one for each partition."""
    reports = _reports(arguments)
    if not reports and (topic.configs or not arguments.topics_with_overrides):
        yield topic_line(topic)
    if not arguments.topics_with_overrides:
        for partition in _shown(topic, reports):
            yield partition_line(partition)


def topic_line(topic: DescribedTopic) -> str:
    columns = [paint(f"Topic: {topic.name}", "bold")]
    if topic.topic_id is not None:
        columns.append(f"TopicId: {topic.topic_id}")
    columns.append(f"PartitionCount: {len(topic.partitions)}")
    columns.append(f"ReplicationFactor: {topic.partitions[0].replication_factor}")
    columns.append("Configs: " + ",".join(f"{name}={_value(value)}" for name, value in topic.configs.items()))
    return "\t".join(columns)


def partition_line(partition: DescribedPartition) -> str:
    info = partition.info
    leader = "Leader: none" if info.leader is None else f"Leader: {info.leader}"
    in_sync = f"Isr: {_ids(info.in_sync)}"
    columns = [
        f"Topic: {partition.topic}",
        f"Partition: {info.index}",
        leader if partition.is_leader_up else paint(leader, "red"),
        f"Replicas: {_ids(info.replicas)}",
        paint(in_sync, "yellow") if partition.is_under_replicated else in_sync,
    ]
    if partition.move is not None:
        columns.append(f"Adding Replicas: {_ids(partition.move.adding)}")
        columns.append(f"Removing Replicas: {_ids(partition.move.removing)}")
    columns.append(f"Elr: {_ids(info.eligible_leaders)}")
    columns.append(f"LastKnownElr: {_ids(info.last_known_eligible_leaders)}")
    return "".join(f"\t{column}" for column in columns)


def is_shown(topic: DescribedTopic, arguments: argparse.Namespace) -> bool:
    """Whether there is anything to say about it."""
    if arguments.topics_with_overrides:
        return bool(topic.configs)
    return bool(_shown(topic, _reports(arguments)))


def json_of(topic: DescribedTopic, arguments: argparse.Namespace) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "topic": topic.name,
        "topic_id": None if topic.topic_id is None else str(topic.topic_id),
        "partition_count": len(topic.partitions),
        "replication_factor": topic.partitions[0].replication_factor,
        "configs": dict(topic.configs),
    }
    if not arguments.topics_with_overrides:
        shown["partitions"] = [_partition_json(one) for one in _shown(topic, _reports(arguments))]
    return shown


def _partition_json(partition: DescribedPartition) -> dict[str, Any]:
    info = partition.info
    shown: dict[str, Any] = {
        "partition": info.index,
        "leader": info.leader,
        "replicas": info.replicas,
        "isr": info.in_sync,
        "elr": info.eligible_leaders,
        "last_known_elr": info.last_known_eligible_leaders,
    }
    if partition.move is not None:
        shown |= {"adding_replicas": partition.move.adding, "removing_replicas": partition.move.removing}
    return shown


def _reports(arguments: argparse.Namespace) -> list[str]:
    return [report for report in REPORTS if getattr(arguments, report)]


def _shown(topic: DescribedTopic, reports: list[str]) -> list[DescribedPartition]:
    """A partition that fits one of the reports is shown; without reports each is."""
    return [one for one in topic.partitions if not reports or any(REPORTED[report](one) for report in reports)]


def _ids(brokers: Iterable[int] | None) -> str:
    return "N/A" if brokers is None else ",".join(map(str, brokers))


def _value(value: str | None) -> str:
    return "null" if value is None else value
