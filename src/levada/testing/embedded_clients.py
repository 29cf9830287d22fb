"""What a test does with the brokers that run in its process: topics, records, and clients that end with them."""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import ExitStack
from typing import Any, TypeVar

from levada import aio
from levada.client.blocking import Admin, Consumer, Producer
from levada.client.blocking.portal import STOP_SECONDS, Portal
from levada.client.errors import KafkaError
from levada.client.types import RecordMetadata
from levada.records import ConsumerRecord
from levada.testing.settings import dotted
from levada.testing.topics import Value, create_topic, produce, read_topic
from levada.testing.waiting import TIMEOUT_SECONDS, NotInTime

T = TypeVar("T")
C = TypeVar("C", Admin, Consumer, Producer)

__tracebackhide__ = True

CLOSE_SECONDS = 1.0
"""How long a client that the test left open may take to say goodbye."""
HELPER_CLIENT_ID = "levada-testing"


class EmbeddedClients:
    """The base of what a test starts."""

    def __init__(self) -> None:
        self._portal: Portal | None = None
        self._helpers: _HelperClients | None = None
        self._clients: list[Producer | Consumer | Admin] = []

    @property
    def bootstrap(self) -> str:
        """For a client's `bootstrap.servers`."""
        raise NotImplementedError

    def refuse_if_not_running(self) -> None:
        """RuntimeError where there is no broker to ask."""
        raise NotImplementedError

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

    def _helpers_at_work(self) -> "_HelperClients":
        self.refuse_if_not_running()
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
