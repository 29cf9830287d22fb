"""A real broker inside the process of a test, with what a test wants to do with it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import TypeVar

from levada.client.blocking import Admin, Consumer, Producer
from levada.model.config import ConfigError
from levada.node import node_settings
from levada.node.development import DEVELOPMENT
from levada.testing.broker_thread import BrokerThread
from levada.testing.broker_time import BrokerTime
from levada.testing.embedded_clients import EmbeddedClients
from levada.testing.governed_time import GovernedTime
from levada.testing.logs import never_print_logs
from levada.testing.settings import dotted
from levada.world.real import open_files_allowed

T = TypeVar("T")
C = TypeVar("C", Admin, Consumer, Producer)

__tracebackhide__ = True

CLOSE_SECONDS = 1.0
"""How long a client that the test left open may take to say goodbye."""
HELPER_CLIENT_ID = "levada-testing"


class EmbeddedBroker(EmbeddedClients):
    """A broker on a free port of localhost, in a directory of its own that goes with it.

    >>> with EmbeddedBroker(num_partitions=3) as broker:
    ...     broker.create_topic("orders")
    ...     placed = broker.produce("orders", ["first", ("anna", "second")])
    ...     [record.value for record in broker.wait_for_records("orders", 2)]
    [b'first', b'second']

    Settings are Kafka's, as keywords with underscores or by their dotted names in a mapping. Any Kafka client can
    connect to `broker.bootstrap`.
    """

    def __init__(self, settings: Mapping[str, object] | None = None, /, **keywords: object) -> None:
        super().__init__()
        self._given = {**DEVELOPMENT, **dotted(settings, keywords)}
        self._governed = GovernedTime()
        self._directory: TemporaryDirectory[str] | None = None
        self._thread: BrokerThread | None = None
        self._port = 0
        self.time = BrokerTime(self._governed, self._on_loop)
        """What the broker takes for the time."""

    # Life

    @property
    def bootstrap(self) -> str:
        """For a client's `bootstrap.servers`."""
        return f"localhost:{self.port}"

    @property
    def port(self) -> int:
        if not self._port:
            raise RuntimeError("the broker has not been started")
        return self._port

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    @property
    def data_directory(self) -> Path:
        """Where its logs lie, in Kafka's format, until it is stopped."""
        if self._directory is None:
            raise RuntimeError("the broker has not been started")
        return Path(self._directory.name)

    def start(self) -> "EmbeddedBroker":
        """Listen; again after `kill`, with what was written before. ConfigError or OSError if that cannot be."""
        if self._thread is not None:
            raise RuntimeError("the broker runs already")
        never_print_logs()
        if self._directory is None:
            self._directory = TemporaryDirectory(prefix="levada-")
        try:
            self._start_thread(self._directory.name)
        except BaseException:
            if not self._port:
                self._remove_directory()
            raise
        return self

    def stop(self) -> None:
        """Stop cleanly, close the clients that were made here, and remove the data."""
        with ExitStack() as stack:
            stack.callback(self._remove_directory)
            stack.callback(self._stop_thread)
            stack.callback(self._close_clients)
            if self._thread is not None:
                # Clients that say goodbye must be heard.
                self.heal_connections()
                self.time.resume()

    def restart(self) -> None:
        """Stop cleanly and start again: same port, same data, same time. A frozen time stands still again after it."""
        was_frozen = self.time.is_frozen
        self._stop_thread()
        self.start()
        if was_frozen:
            self.time.freeze()

    def kill(self) -> None:
        """End it as SIGKILL would: it sends nothing and writes nothing more. `start` brings it back."""
        thread, self._thread = self._running(), None
        thread.kill()

    def __enter__(self) -> "EmbeddedBroker":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    # Time

    @contextmanager
    def frozen_time(self) -> Iterator[BrokerTime]:
        """Time stands still inside the block, but for `advance`, and runs on behind it."""
        self.time.freeze()
        try:
            yield self.time
        finally:
            self.time.resume()

    # Connections

    def cut_connections(self, client_id: str | None = None) -> None:
        """Break all connections, or those of a client id, and every new one, until `heal_connections`."""
        thread = self._running()
        thread.call(lambda: thread.net.cut(client_id))

    def swallow_replies(self, client_id: str | None = None) -> None:
        """Take requests, of all or of a client id, and carry them out; but no reply leaves until all is healed."""
        thread = self._running()
        thread.call(lambda: thread.net.mute(client_id))

    def heal_connections(self) -> None:
        """Let connections be as they should; those on which a reply was lost are broken, so that clients ask again."""
        thread = self._running()
        thread.call(thread.net.heal)

    @contextmanager
    def connections_cut(self, client_id: str | None = None) -> Iterator[None]:
        """Inside the block no client, or not this one, is connected."""
        self.cut_connections(client_id)
        try:
            yield
        finally:
            self.heal_connections()

    @contextmanager
    def replies_swallowed(self, client_id: str | None = None) -> Iterator[None]:
        """Inside the block no client, or not this one, gets a reply."""
        self.swallow_replies(client_id)
        try:
            yield
        finally:
            self.heal_connections()

    # The inside

    def _start_thread(self, directory: str) -> None:
        given = {"node.id": "1", **self._given, "log.dirs": directory}
        given["listeners"] = f"PLAINTEXT://localhost:{self._port}"
        try:
            settings = node_settings(given, open_files_allowed())
        except ConfigError as error:
            raise error.with_traceback(None) from None
        thread = BrokerThread(settings, self._governed)
        self._port = thread.start()
        self._thread = thread

    def _stop_thread(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()

    def refuse_if_not_running(self) -> None:
        self._running()

    def _running(self) -> BrokerThread:
        if self._thread is None:
            raise RuntimeError("the broker does not run")
        return self._thread

    def _on_loop(self, function: Callable[[], None]) -> None:
        self._running().call(function)

    def _remove_directory(self) -> None:
        directory, self._directory = self._directory, None
        self._port = 0
        if directory is not None:
            directory.cleanup()
