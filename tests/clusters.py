"""Several real brokers on one coordinator, each a process of its own, for tests."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tests.brokers import BrokerProcess

T = TypeVar("T")

SESSION_MS = 2_000
SETTINGS = (
    f"broker.session.timeout.ms={SESSION_MS}",
    "broker.heartbeat.interval.ms=300",
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=6",
    "transaction.state.log.num.partitions=6",
)
WAIT_SECONDS = 30.0
POLL_SECONDS = 0.05


class ClusterProcesses:
    """Brokers 1 to N; each of them may be killed, paused, stopped and started again."""

    def __init__(self, directory: Path, count: int = 3, *settings: str, coordinator: str | None = None) -> None:
        self.directory = directory
        self.coordinator = coordinator or f"local:{directory / 'coordinator'}"
        self.brokers = {
            node_id: BrokerProcess(
                directory / f"broker-{node_id}", *SETTINGS, *settings, node_id=node_id, coordinator=self.coordinator
            )
            for node_id in range(1, count + 1)
        }

    @classmethod
    def of(cls, directory: Path, *brokers: BrokerProcess) -> "ClusterProcesses":
        """Brokers that were made one by one."""
        made = cls(directory, 0)
        made.brokers = dict(enumerate(brokers))
        return made

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    def start(self) -> "ClusterProcesses":
        self.directory.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(max(len(self.brokers), 1)) as pool:
            list(pool.map(BrokerProcess.start, self.brokers.values()))
        return self

    def stop(self) -> list[int]:
        """The exit codes."""
        return [broker.stop() for broker in reversed(self.brokers.values())]

    def kill(self) -> None:
        for broker in self.brokers.values():
            broker.kill()

    @property
    def logs(self) -> str:
        return "\n".join(f"== broker {node_id}\n{broker.log}" for node_id, broker in self.brokers.items())


@contextmanager
def sound_cluster(cluster: ClusterProcesses) -> Iterator[ClusterProcesses]:
    """Brokers that run meanwhile; they must end well, and have had no fault of their own."""
    try:
        cluster.start()
        yield cluster
        codes = cluster.stop()
    finally:
        cluster.kill()
    assert codes == [0] * len(codes), cluster.logs
    assert "Traceback" not in cluster.logs, cluster.logs


def wait_for(condition: Callable[[], T | None], what: str, seconds: float = WAIT_SECONDS) -> T:
    """What a condition gives, as soon as that is something."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(POLL_SECONDS)
    return found
