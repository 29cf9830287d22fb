"""Which brokers get the replicas of new partitions: leaders in turn, followers shifted a little more every round."""

from collections.abc import Sequence

from levada.metadata.image import BrokerState
from levada.model.errors import InvalidReplicationFactor


def place(
    brokers: Sequence[BrokerState], count: int, replication_factor: int, *, start: int, shift: int, first: int = 0
) -> list[list[int]]:
    """Replicas for `count` partitions, the preferred leader first; `first` is the index of the first partition."""
    if not brokers:
        raise InvalidReplicationFactor(
            f"Unable to replicate the partition {replication_factor} time(s): All brokers are currently fenced."
        )
    if replication_factor > len(brokers):
        raise InvalidReplicationFactor(
            f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of "
            f"{replication_factor} cannot be reached because only {len(brokers)} broker(s) are registered or some "
            "brokers have all their log directories cordoned."
        )
    ordered = _racks_in_turn(brokers)
    racks = {broker.broker_id: broker.rack for broker in brokers}
    placed = []
    for index in range(first, first + count):
        if index and index % len(ordered) == 0:
            shift += 1
        turned = _turn(ordered, (index + start) % len(ordered), shift)
        placed.append(_spread(turned, racks, replication_factor))
    return placed


def _turn(ordered: list[int], leader: int, shift: int) -> list[int]:
    """All brokers from the leader on, the others moved round by the shift."""
    size = len(ordered)
    others = [ordered[(leader + 1 + (shift + number) % (size - 1)) % size] for number in range(size - 1)]
    return [ordered[leader], *others]


def _spread(candidates: list[int], racks: dict[int, str | None], count: int) -> list[int]:
    """The first of them, but one from each rack before a second from any."""
    chosen: list[int] = []
    remaining = candidates
    while len(chosen) < count:
        used: set[str | None] = set()
        left = []
        for broker in remaining:
            rack = racks[broker]
            if len(chosen) < count and (rack is None or rack not in used):
                used.add(rack)
                chosen.append(broker)
            else:
                left.append(broker)
        remaining = left
    return chosen


def _racks_in_turn(brokers: Sequence[BrokerState]) -> list[int]:
    """Ids in the order given, but each rack's first before any rack's second."""
    by_rack: dict[str | None, list[int]] = {}
    for broker in brokers:
        by_rack.setdefault(broker.rack, []).append(broker.broker_id)
    longest = max(len(ids) for ids in by_rack.values())
    return [ids[turn] for turn in range(longest) for ids in by_rack.values() if turn < len(ids)]
