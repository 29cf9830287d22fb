"""The producer for code without asyncio: the same one, on a loop in a thread of its own."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from levada.client.blocking.client import BlockingClient, at_once, blocking
from levada.client.blocking.portal import Portal
from levada.client.producer.batch import OnDelivery
from levada.client.producer.bulk import ArrowRows, Rows
from levada.client.producer.handle import Handle, ManyHandle
from levada.client.producer.intake import HeadersInput
from levada.client.producer.producer import Producer as AsyncProducer
from levada.model.buffers import Buffer

if TYPE_CHECKING:
    import pyarrow as pa

TURN_SECONDS = 0.05
"""How long a sending thread lets the loop have its turn, at most."""


class Turnstile:
    """Lets the loop's thread run when a sending thread has filled a batch.

    Python gives the interpreter to a waiting thread after 5 ms only; until then a busy sender would keep the loop from
    sending what is ready. So the sender waits until the loop has had its turn.
    """

    def __init__(self, portal: Portal) -> None:
        self._portal = portal
        self._lock = threading.Lock()
        self._is_due = False
        self._waiting: list[threading.Lock] = []

    def wake(self, pump: Callable[[], None]) -> None:
        with self._lock:
            is_due, self._is_due = self._is_due, True
            if self._portal.is_own_thread:
                turn = None
            else:
                turn = threading.Lock()
                turn.acquire()
                self._waiting.append(turn)
        if not is_due:
            self._portal.post(lambda: self._run(pump))
        if turn is not None:
            turn.acquire(timeout=TURN_SECONDS)

    def _run(self, pump: Callable[[], None]) -> None:
        with self._lock:
            self._is_due = False
            waiting, self._waiting = self._waiting, []
        try:
            pump()
        finally:
            for turn in waiting:
                turn.release()


class _Send:
    """The longer way of a record; it does not refer to the blocking producer, which can so be collected."""

    def __init__(self, portal: Portal, producer: AsyncProducer) -> None:
        self._portal = portal
        self._producer = producer

    def __call__(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: HeadersInput,
        partition: int | None,
        timestamp_ms: int | None,
        on_delivery: OnDelivery | None,
    ) -> Handle:
        producer = self._producer
        record = producer.prepare(topic, value, key, headers, partition, timestamp_ms, on_delivery)
        handle = producer.try_put(record)
        return self._portal.call(producer.put(record)) if handle is None else handle


class Producer(BlockingClient[AsyncProducer]):
    """Sends records.

    Keyword arguments are Kafka's producer settings, `linger_ms=5` or `**{"linger.ms": 5}`. Threads may share one.

    >>> with Producer(bootstrap, linger_ms=5, acks="all") as producer:
    ...     handle = producer.send("orders", b"value", key=b"key", headers={"tag": b"vip"})
    ...     many = producer.send_many("orders", [b"one", b"two"], keys=[b"a", b"b"])
    ...     producer.flush()
    >>> handle.result().topic, many.result()
    ('orders', 2)
    """

    def __init__(self, bootstrap: str | Sequence[str] | None = None, **options: Any) -> None:
        super().__init__(
            "producer",
            lambda portal: AsyncProducer(bootstrap, wake=Turnstile(portal).wake, **options),
            AsyncProducer.close,
        )
        self._send = _Send(self._portal, self._client)
        # One call less for each record; what it cannot do itself, it leaves to `_Send`.
        self.send = self._client.new_front(self._send).send  # type: ignore[method-assign]

    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: HeadersInput = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Handle:
        """Put a record on its way; `result()` of the handle waits for its place in the log.

        Blocks up to `max.block.ms` while the topic is not known, or `buffer.memory` is full. `on_delivery(metadata,
        error)` is called on the client's own thread.
        """
        return self._send(topic, value, key, headers, partition, timestamp_ms, on_delivery)

    def send_many(
        self,
        topic: str,
        values: Sequence[Buffer | None],
        *,
        keys: Sequence[Buffer | None] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> ManyHandle:
        """Send many values at once, several times faster than one by one."""
        return self._write(topic, self._client.rows(values, keys, timestamp_ms), partition)

    def send_arrow(self, topic: str, batch: "pa.RecordBatch", *, partition: int | None = None) -> ManyHandle:
        """Send each row of an Arrow batch: column `value`, and `key`, `headers`, `timestamp`, `partition` if any."""
        return self._write(topic, ArrowRows(batch, self._client.now_ms()), partition)

    flush = blocking(AsyncProducer.flush)
    partitions_for = blocking(AsyncProducer.partitions_for)
    init_transactions = blocking(AsyncProducer.init_transactions)
    begin_transaction = blocking(AsyncProducer.begin_transaction)
    commit_transaction = blocking(AsyncProducer.commit_transaction)
    abort_transaction = blocking(AsyncProducer.abort_transaction)
    send_offsets_to_transaction = blocking(AsyncProducer.send_offsets_to_transaction)
    hand_over_transaction = blocking(AsyncProducer.hand_over_transaction)
    commit_group = blocking(AsyncProducer.commit_group)
    metrics = at_once(AsyncProducer.metrics)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin a transaction; commit it at the end of the block, or abort it if the block raises."""
        self.begin_transaction()
        try:
            yield
        except BaseException as error:
            self._portal.call(self._client.abort_after(error))
            raise
        self._portal.call(self._client.commit_or_abort())

    def _write(self, topic: str, rows: Rows, partition: int | None) -> ManyHandle:
        bulk = self._portal.call(self._client.bulk(topic, rows, partition))
        while not bulk.is_done:
            if not bulk.step():
                self._portal.call(self._client.wait_for_room(bulk.releases))
        return bulk.handle()
