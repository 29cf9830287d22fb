"""Several real brokers inside the process of a test, one cluster of them."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

from levada.model.config import ConfigError
from levada.node import node_settings
from levada.node.development import DEVELOPMENT
from levada.testing.broker_thread import BrokerThread
from levada.testing.embedded_clients import EmbeddedClients
from levada.testing.governed_time import GovernedTime
from levada.testing.logs import never_print_logs
from levada.testing.settings import dotted
from levada.world.real import open_files_allowed

__tracebackhide__ = True

QUICK = {"broker.session.timeout.ms": "1500", "broker.heartbeat.interval.ms": "200"}
"""A broker that is killed is noticed within the time that a test has."""


class EmbeddedCluster(EmbeddedClients):
    """Brokers 1 to N on free ports of localhost; each may be killed, stopped and started again.

    >>> with EmbeddedCluster(2) as cluster:
    ...     cluster.create_topic("orders", partitions=2)
    ...     placed = cluster.produce("orders", ["first", "second"])
    ...     cluster.kill(1)
    ...     cluster.start(1)
    ...     len(cluster.wait_for_records("orders", 2))
    2
    """

    def __init__(self, brokers: int = 3, settings: Mapping[str, object] | None = None, /, **keywords: object) -> None:
        super().__init__()
        if brokers < 1:
            raise ValueError(f"a cluster has at least one broker, not {brokers}")
        self._given = {**DEVELOPMENT, **QUICK, **dotted(settings, keywords)}
        self._ports = dict.fromkeys(range(1, brokers + 1), 0)
        self._threads: dict[int, BrokerThread] = {}
        self._directory: TemporaryDirectory[str] | None = None

    @property
    def bootstrap(self) -> str:
        """All brokers, those too that do not run now."""
        self.refuse_if_not_running()
        return ",".join(f"localhost:{port}" for port in self._ports.values())

    @property
    def brokers(self) -> list[int]:
        """The ids of those that run."""
        return sorted(self._threads)

    def port(self, node_id: int) -> int:
        return self._ports[node_id]

    def start(self, *node_ids: int) -> "EmbeddedCluster":
        """Start these, or all that do not run; what they wrote before is there."""
        never_print_logs()
        if self._directory is None:
            self._directory = TemporaryDirectory(prefix="levada-")
        for node_id in node_ids or self._ports:
            if node_id not in self._ports:
                raise ValueError(f"there is no broker {node_id}: they are 1 to {len(self._ports)}")
            if node_id not in self._threads:
                self._start(node_id, self._directory.name)
        return self

    def stop(self, *node_ids: int) -> None:
        """Stop these cleanly; without ids all of them, with the clients that were made here and the data."""
        if node_ids:
            for node_id in node_ids:
                self._running(node_id).stop()
                del self._threads[node_id]
            return
        with ExitStack() as stack:
            stack.callback(self._remove_directory)
            for node_id in sorted(self._threads):
                stack.callback(self._threads.pop(node_id).stop)
            stack.callback(self._close_clients)

    def kill(self, node_id: int) -> None:
        """End a broker as SIGKILL would: it sends nothing and writes nothing more. `start` brings it back."""
        self._running(node_id).kill()
        del self._threads[node_id]

    def data_directory(self, node_id: int) -> Path:
        """Where the logs of a broker lie, in Kafka's format, until the cluster is stopped."""
        if self._directory is None:
            raise RuntimeError("the cluster has not been started")
        return Path(self._directory.name, f"broker-{node_id}")

    def refuse_if_not_running(self) -> None:
        if self._directory is None:
            raise RuntimeError("the cluster does not run")

    def __enter__(self) -> "EmbeddedCluster":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self, node_id: int, directory: str) -> None:
        given = {
            **self._given,
            "node.id": str(node_id),
            "log.dirs": f"{directory}/broker-{node_id}",
            "listeners": f"PLAINTEXT://localhost:{self._ports[node_id]}",
        }
        try:
            settings = node_settings(given, open_files_allowed(), coordinator=f"local:{directory}/coordinator")
        except ConfigError as error:
            raise error.with_traceback(None) from None
        thread = BrokerThread(settings, GovernedTime())
        self._ports[node_id] = thread.start()
        self._threads[node_id] = thread

    def _running(self, node_id: int) -> BrokerThread:
        thread = self._threads.get(node_id)
        if thread is None:
            raise RuntimeError(f"broker {node_id} does not run")
        return thread

    def _remove_directory(self) -> None:
        directory, self._directory = self._directory, None
        self._ports = dict.fromkeys(self._ports, 0)
        if directory is not None:
            directory.cleanup()
