"""For tests of code that uses Kafka: a real broker in the same process, and whole runs in simulated time.

>>> from penstock.testing import EmbeddedBroker, simulate

pytest finds the fixtures of `penstock.testing.plugin` by itself. The page about all of it is docs/testing.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.sim import SimDeadlock, SimTimeout
    from penstock.testing.broker_time import BrokerTime
    from penstock.testing.cluster import Cluster, Process, Service
    from penstock.testing.embedded import EmbeddedBroker
    from penstock.testing.faults import NO_FAULTS, STORM, Faults, Step
    from penstock.testing.simulation import Report, simulate, simulate_many
    from penstock.testing.waiting import NotInTime, wait_until

__all__ = [
    "NO_FAULTS",
    "STORM",
    "BrokerTime",
    "Cluster",
    "EmbeddedBroker",
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
    "penstock.sim": ("SimDeadlock", "SimTimeout"),
    "penstock.testing.broker_time": ("BrokerTime",),
    "penstock.testing.cluster": ("Cluster", "Process", "Service"),
    "penstock.testing.embedded": ("EmbeddedBroker",),
    "penstock.testing.faults": ("NO_FAULTS", "STORM", "Faults", "Step"),
    "penstock.testing.simulation": ("Report", "simulate", "simulate_many"),
    "penstock.testing.waiting": ("NotInTime", "wait_until"),
}


def __getattr__(name: str) -> Any:
    # Loaded when asked for: pytest loads the plugin beside this file in every run.
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'penstock.testing' has no attribute {name!r}")
