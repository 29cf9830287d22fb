"""A real broker inside the process of a test, with what a test wants to do with it."""

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, TypeVar

from levada import aio
from levada.client.blocking import Admin, Consumer, Producer
from levada.client.blocking.portal import STOP_SECONDS, Portal
from levada.client.errors import KafkaError
from levada.client.types import RecordMetadata
from levada.model.config import ConfigError
from levada.node import node_settings
from levada.node.development import DEVELOPMENT
from levada.records import ConsumerRecord
from levada.testing.broker_thread import BrokerThread
from levada.testing.broker_time import BrokerTime
from levada.testing.governed_time import GovernedTime
from levada.testing.logs import never_print_logs
from levada.testing.settings import dotted
from levada.testing.topics import Value, create_topic, produce, read_topic
from levada.testing.waiting import TIMEOUT_SECONDS, NotInTime
from levada.world.real import open_files_allowed

T = TypeVar("T")
C = TypeVar("C", Admin, Consumer, Producer)

__tracebackhide__ = True

CLOSE_SECONDS = 1.0
"""How long a client that the test left open may take to say goodbye."""
HELPER_CLIENT_ID = "levada-testing"


class EmbeddedBroker:
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
        self._given = {**DEVELOPMENT, **dotted(settings, keywords)}
        self._governed = GovernedTime()
        self._directory: TemporaryDirectory[str] | None = None
        self._thread: BrokerThread | None = None
        self._port = 0
        self._portal: Portal | None = None
        self._helpers: _HelperClients | None = None
        self._clients: list[Producer | Consumer | Admin] = []
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

    # Topics

    def create_topic(self, name: str, partitions: int = 1, **configs: object) -> None:
        """A topic with Kafka's topic settings as keywords: `cleanup_policy="compact"`."""
        helpers = self._helpers_at_work()
        self._call(lambda: create_topic(helpers.admin, name, partitions, dotted(None, configs)))

    def produce(
        self,
        topic: str,
        values: Iterable[Value],
        *,
        partition: int | None = None,
        headers: Mapping[str, bytes] | None = None,
        timestamp_ms: int | None = None,
    ) -> list[RecordMetadata]:
        """Send values, or (key, value) pairs, of bytes or str, and wait until they are acknowledged."""
        helpers = self._helpers_at_work()
        return self._call(
            lambda: produce(
                helpers.producer, topic, values, partition=partition, headers=headers, timestamp_ms=timestamp_ms
            )
        )

    def records(self, topic: str, *, isolation_level: str = "read_uncommitted") -> list[ConsumerRecord]:
        """All records that a topic has now, by partition and offset."""
        return self.wait_for_records(topic, 0, isolation_level=isolation_level)

    def wait_for_records(
        self,
        topic: str,
        count: int = 1,
        timeout: float = TIMEOUT_SECONDS,
        *,
        isolation_level: str = "read_uncommitted",
    ) -> list[ConsumerRecord]:
        """All records of a topic, which need not exist yet, once there are `count` or more; else NotInTime."""
        self._helpers_at_work()
        return self._call(lambda: read_topic(self._new_reader, topic, count, timeout, isolation_level))

    # Clients

    def producer(self, **options: Any) -> Producer:
        """A blocking producer of this broker, closed with it."""
        return self._kept(Producer(self.bootstrap, **options))

    def consumer(self, *topics: str, **options: Any) -> Consumer:
        """A blocking consumer that begins with the first record, unless told otherwise; closed with the broker."""
        consumer = self._kept(Consumer(self.bootstrap, **{"auto_offset_reset": "earliest", **options}))
        if topics:
            consumer.subscribe(topics)
        return consumer

    def admin(self, **options: Any) -> Admin:
        """A blocking admin client of this broker, closed with it."""
        return self._kept(Admin(self.bootstrap, **options))

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

    def _helpers_at_work(self) -> "_HelperClients":
        self._running()
        if self._portal is None:
            self._portal = Portal("levada-testing")
        if self._helpers is None:
            self._helpers = self._call(self._new_helpers)
        return self._helpers

    async def _new_helpers(self) -> "_HelperClients":
        return _HelperClients(self.bootstrap)

    def _new_reader(self, **options: Any) -> aio.Consumer:
        return aio.Consumer(self.bootstrap, client_id=HELPER_CLIENT_ID, **options)

    def _call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        assert self._portal is not None
        try:
            return self._portal.call(work())
        except (KafkaError, NotInTime) as error:
            # Its text says all: a failing test shows its own line, without the inside of a client and its thread.
            raise error.with_traceback(None) from None

    def _kept(self, client: C) -> C:
        self._clients.append(client)
        return client

    def _close_clients(self) -> None:
        """All of them, though some cannot say goodbye: the error of one is raised when the others are closed."""
        clients, self._clients = self._clients, []
        with ExitStack() as stack:
            stack.callback(self._close_helpers)
            for client in reversed(clients):
                stack.callback(client.close, CLOSE_SECONDS)

    def _close_helpers(self) -> None:
        portal, self._portal = self._portal, None
        helpers, self._helpers = self._helpers, None
        if portal is None:
            return
        try:
            if helpers is not None:
                portal.call(helpers.close())
        finally:
            portal.stop(_nothing)
            portal.join(STOP_SECONDS)


class _HelperClients:
    """The clients behind the helpers."""

    def __init__(self, bootstrap: str) -> None:
        self.admin = aio.Admin(bootstrap, client_id=HELPER_CLIENT_ID)
        self.producer = aio.Producer(bootstrap, client_id=HELPER_CLIENT_ID, delivery_timeout_ms=30_000, linger_ms=0)

    async def close(self) -> None:
        await self.producer.close(CLOSE_SECONDS)
        await self.admin.close()


async def _nothing() -> None:
    pass
