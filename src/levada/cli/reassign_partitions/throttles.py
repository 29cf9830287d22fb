"""Limits on what a move may take from the brokers: which replicas they hold for, and their setting and removal."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from levada.cli.kit.refusals import changing
from levada.client.admin import ConfigResource, PartitionReassignment
from levada.client.blocking import Admin
from levada.client.types import TopicPartition

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
DIRECTORY_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"


@dataclass(frozen=True, slots=True)
class ReplicaMove:
    sources: frozenset[int]
    destinations: frozenset[int]


def moves(
    ongoing: Mapping[TopicPartition, PartitionReassignment],
    wanted: Mapping[TopicPartition, Sequence[int]],
    current: Mapping[TopicPartition, Sequence[int]],
) -> dict[TopicPartition, ReplicaMove]:
    """All that will be under way: a partition that moves already is copied from where it was before."""
    found = {
        partition: ReplicaMove(frozenset(one.replicas) - frozenset(one.adding), frozenset(one.adding))
        for partition, one in ongoing.items()
    }
    for partition, replicas in wanted.items():
        sources = found[partition].sources if partition in found else frozenset(current[partition])
        found[partition] = ReplicaMove(sources, frozenset(replicas) - sources)
    return found


def throttled_replicas(found: Mapping[TopicPartition, ReplicaMove]) -> dict[str, dict[str, str]]:
    """By topic the keys that name replicas as PARTITION:BROKER, sorted as Apache sorts them: as text."""
    topics: dict[str, dict[str, set[str]]] = {}
    for partition, move in found.items():
        keys = topics.setdefault(partition.topic, {LEADER_REPLICAS: set(), FOLLOWER_REPLICAS: set()})
        keys[LEADER_REPLICAS] |= {f"{partition.partition}:{broker}" for broker in move.sources}
        keys[FOLLOWER_REPLICAS] |= {f"{partition.partition}:{broker}" for broker in move.destinations}
    return {topic: {key: ",".join(sorted(names)) for key, names in keys.items()} for topic, keys in topics.items()}


def limit_moves(admin: Admin, found: Mapping[TopicPartition, ReplicaMove], bytes_per_second: int) -> None:
    """Between brokers."""
    topics = {ConfigResource.topic(topic): keys for topic, keys in throttled_replicas(found).items()}
    brokers = sorted({broker for move in found.values() for broker in move.sources | move.destinations})
    rate = str(bytes_per_second)
    with changing("throttles were being set"):
        admin.incremental_alter_configs(topics).raise_any()
        admin.incremental_alter_configs(
            {ConfigResource.broker(broker): {LEADER_RATE: rate, FOLLOWER_RATE: rate} for broker in brokers}
        ).raise_any()
    print(f"The inter-broker throttle limit was set to {bytes_per_second} B/s", flush=True)


def limit_directories(admin: Admin, brokers: Iterable[int], bytes_per_second: int) -> None:
    """Between directories of brokers."""
    with changing("throttles were being set"):
        admin.incremental_alter_configs(
            {ConfigResource.broker(broker): {DIRECTORY_RATE: str(bytes_per_second)} for broker in brokers}
        ).raise_any()
    print(f"The replica-alter-dir throttle limit was set to {bytes_per_second} B/s", flush=True)


def clear_all(admin: Admin, brokers: Sequence[int], topics: Sequence[str], *, is_quiet: bool = False) -> None:
    """On all these brokers: no broker remembers which of them a move came from."""
    if not is_quiet:
        print(f"Clearing broker-level throttles on {_counted('broker', brokers)}", flush=True)
    with changing("throttles were being removed"):
        admin.incremental_alter_configs(
            {
                ConfigResource.broker(broker): dict.fromkeys((LEADER_RATE, FOLLOWER_RATE, DIRECTORY_RATE))
                for broker in brokers
            }
        ).raise_any()
    if not is_quiet:
        print(f"Clearing topic-level throttles on {_counted('topic', topics)}", flush=True)
    with changing("throttles were being removed"):
        admin.incremental_alter_configs(
            {ConfigResource.topic(topic): dict.fromkeys((LEADER_REPLICAS, FOLLOWER_REPLICAS)) for topic in topics}
        ).raise_any()


def _counted(what: str, names: Sequence[object]) -> str:
    return f"{what}{'' if len(names) == 1 else 's'} {','.join(map(str, names))}"
