"""The assignors that the leader of a classic consumer group runs.

`ASSIGNORS` makes them by the names they have on the wire; each consumer has its own, since some remember what they were
assigned. A consumer also takes any object with the shape of `Assignor`.
"""

from collections.abc import Callable

from levada.client.assignors.cooperative_sticky import CooperativeStickyAssignor
from levada.client.assignors.range import RangeAssignor
from levada.client.assignors.round_robin import RoundRobinAssignor
from levada.client.assignors.spec import (
    Assignment,
    Assignor,
    Partition,
    RebalanceProtocol,
    ReplicaRacks,
    Subscription,
)
from levada.client.assignors.sticky import StickyAssignor

ASSIGNORS: dict[str, Callable[[], Assignor]] = {
    assignor.name: assignor
    for assignor in (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
}

__all__ = [
    "ASSIGNORS",
    "Assignment",
    "Assignor",
    "CooperativeStickyAssignor",
    "Partition",
    "RangeAssignor",
    "RebalanceProtocol",
    "ReplicaRacks",
    "RoundRobinAssignor",
    "StickyAssignor",
    "Subscription",
]
