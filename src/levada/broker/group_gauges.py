"""Kafka's gauges of group coordinators, counted when metrics are collected."""

from collections import Counter
from collections.abc import Iterator

from levada.broker.group_coordinator import GroupCoordinator
from levada.groups import ClassicGroupState, GroupCounts
from levada.groups.consumer import ConsumerGroupState
from levada.model.metrics import Registry, Sample, Value

_COORDINATOR = "kafka.server:type=group-coordinator-metrics"
_MANAGER = "kafka.server:type=GroupMetadataManager,name="


def register_group_gauges(registry: Registry, coordinator: GroupCoordinator, counts: GroupCounts) -> None:
    registry.add_source(lambda: _coordinator(coordinator, counts))
    registry.add_source(lambda: _groups(coordinator))


def _coordinator(coordinator: GroupCoordinator, counts: GroupCounts) -> Iterator[Sample]:
    partitions = {
        "loading": coordinator.loading_partitions,
        "active": len(coordinator.machines()),
        "failed": coordinator.failed_partitions,
    }
    for state, count in partitions.items():
        yield _attributes({"num-partitions": count}, state=state)
    times = coordinator.load_times_ms
    yield _attributes(
        {
            "offset-commit-count": counts.offset_commits,
            "offset-expiration-count": counts.offset_expirations,
            "offset-deletion-count": counts.offset_deletions,
            "group-completed-rebalance-count": counts.classic_rebalances,
            "consumer-group-rebalance-count": counts.consumer_rebalances,
            "partition-load-time-avg": sum(times) / len(times) if times else 0,
            "partition-load-time-max": max(times, default=0),
        }
    )


def _groups(coordinator: GroupCoordinator) -> Iterator[Sample]:
    machines = coordinator.machines()
    classic = Counter(group.state for machine in machines for group in machine.classic.all())
    consumer = Counter(group.state for machine in machines for group in machine.consumer.groups.values())
    yield _attributes({"group-count": classic.total()}, protocol="classic")
    yield _attributes({"group-count": consumer.total()}, protocol="consumer")
    for consumer_state in ConsumerGroupState:
        yield _attributes({"consumer-group-count": consumer[consumer_state]}, state=consumer_state.value.lower())
    yield _gauge("NumOffsets", sum(len(machine.offsets) for machine in machines))
    yield _gauge("NumGroups", classic.total())
    for state in ClassicGroupState:
        yield _gauge(f"NumGroups{state.value}", classic[state])


def _attributes(values: dict[str, Value], **tags: str) -> Sample:
    return Sample(_COORDINATOR, tags, "attributes", values)


def _gauge(name: str, value: int) -> Sample:
    return Sample(_MANAGER + name, {}, "gauge", {"Value": value})
