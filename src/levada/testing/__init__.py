"""For tests of code that uses Kafka: a real broker in the same process, and whole runs in simulated time.

>>> from levada.testing import EmbeddedBroker, simulate

pytest finds the fixtures of `levada.testing.plugin` by itself. The page about all of it is docs/testing.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from levada.sim import SimDeadlock, SimTimeout
    from levada.testing.broker_time import BrokerTime
    from levada.testing.cluster import Cluster, Process, Service
    from levada.testing.embedded import EmbeddedBroker
    from levada.testing.embedded_cluster import EmbeddedCluster
    from levada.testing.faults import NO_FAULTS, STORM, Faults, Step
    from levada.testing.simulation import Report, simulate, simulate_many
    from levada.testing.waiting import NotInTime, wait_until

__all__ = [
    "NO_FAULTS",
    "STORM",
    "BrokerTime",
    "Cluster",
    "EmbeddedBroker",
    "EmbeddedCluster",
    "Faults",
    "NotInTime",
    "Process",
    "Report",
    "Service",
    "SimDeadlock",
    "SimTimeout",
    "Step",
    "simulate",
    "simulate_many",
    "wait_until",
]

_HOMES = {
    "levada.sim": ("SimDeadlock", "SimTimeout"),
    "levada.testing.broker_time": ("BrokerTime",),
    "levada.testing.cluster": ("Cluster", "Process", "Service"),
    "levada.testing.embedded": ("EmbeddedBroker",),
    "levada.testing.embedded_cluster": ("EmbeddedCluster",),
    "levada.testing.faults": ("NO_FAULTS", "STORM", "Faults", "Step"),
    "levada.testing.simulation": ("Report", "simulate", "simulate_many"),
    "levada.testing.waiting": ("NotInTime", "wait_until"),
}


def __getattr__(name: str) -> Any:
    # Loaded when asked for: pytest loads the plugin beside this file in every run.
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'levada.testing' has no attribute {name!r}")
