"""Reassignments as JSON: where each replica of each partition shall lie."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from levada.cli.json_fields import field, items
from levada.cli.kit.refusals import Refused
from levada.client.admin import Replica
from levada.client.types import TopicPartition

ANY_DIRECTORY: Final = "any"
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class ReassignmentPlan:
    partitions: tuple[tuple[TopicPartition, tuple[int, ...]], ...]
    """In the order of the file, where one may stand twice."""
    directories: Mapping[Replica, str]
    """Of replicas that shall lie in one directory and no other."""

    @property
    def replicas(self) -> dict[TopicPartition, tuple[int, ...]]:
        return dict(self.partitions)


def read_plan(document: Any, source: str) -> ReassignmentPlan:
    _check_version(document, source)
    partitions = []
    directories = {}
    wanted = field(document, "partitions", list, source) if "partitions" in document else []
    for number, one in enumerate(wanted):
        where = f"{source}: partitions[{number}]"
        partition = TopicPartition(field(one, "topic", str, where), field(one, "partition", int, where))
        replicas = items(one, "replicas", int, where)
        paths = items(one, "log_dirs", str, where) if "log_dirs" in one else [ANY_DIRECTORY] * len(replicas)
        if len(paths) != len(replicas):
            raise Refused(
                f"Size of replicas list {replicas} is different from size of log dirs list {paths} for partition"
                f" {partition}"
            )
        partitions.append((partition, tuple(replicas)))
        for broker, path in zip(replicas, paths, strict=True):
            if path != ANY_DIRECTORY:
                directories[Replica(*partition, broker)] = path
    return ReassignmentPlan(tuple(partitions), directories)


def check_plan(plan: ReassignmentPlan) -> None:
    """Refused for what no broker could do."""
    if not plan.partitions:
        raise Refused("Partition reassignment list cannot be empty")
    if not all(replicas for _, replicas in plan.partitions):
        raise Refused("Partition replica list cannot be empty")
    twice = _twice([partition for partition, _ in plan.partitions])
    if twice:
        raise Refused(f"Partition reassignment contains duplicate topic partitions: {_joined(twice)}")
    lists = [(partition, _twice(replicas)) for partition, replicas in plan.partitions]
    faults = [
        f"{partition} contains multiple entries for {_joined(brokers)}" for partition, brokers in lists if brokers
    ]
    if faults:
        raise Refused(f"Partition replica lists may not contain duplicate entries: {'. '.join(faults)}")


def read_topics(document: Any, source: str) -> list[str]:
    """The topics that shall be moved."""
    _check_version(document, source)
    wanted = field(document, "topics", list, source) if "topics" in document else []
    topics = [field(one, "topic", str, f"{source}: topics[{number}]") for number, one in enumerate(wanted)]
    twice = _twice(topics)
    if twice:
        raise Refused(f"List of topics to reassign contains duplicate entries: {', '.join(twice)}")
    return topics


def plan_document(
    replicas: Mapping[TopicPartition, Sequence[int]], directories: Mapping[Replica, str]
) -> dict[str, Any]:
    return {
        "version": VERSION,
        "partitions": [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "replicas": list(brokers),
                "log_dirs": [directories.get(Replica(*partition, broker), ANY_DIRECTORY) for broker in brokers],
            }
            for partition, brokers in sorted(replicas.items())
        ],
    }


def plan_text(replicas: Mapping[TopicPartition, Sequence[int]], directories: Mapping[Replica, str]) -> str:
    """In one line, as Apache writes it."""
    return json.dumps(plan_document(replicas, directories), separators=(",", ":"), ensure_ascii=False)


def _check_version(document: Any, source: str) -> None:
    if not isinstance(document, dict):
        raise Refused(f"{source} must hold a JSON object")
    version = field(document, "version", int, source) if "version" in document else VERSION
    if version != VERSION:
        raise Refused(f"Not supported version field value {version}")


def _twice(values: Sequence[Any]) -> list[Any]:
    return [value for value, count in Counter(values).items() if count > 1]


def _joined(values: Sequence[object]) -> str:
    return ",".join(map(str, values))
