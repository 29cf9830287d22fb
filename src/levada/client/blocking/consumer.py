"""The consumer for code without asyncio: the same one, on a loop in a thread of its own, so that heartbeats go on."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from levada.client.blocking.client import BlockingClient, at_once, blocking
from levada.client.blocking.portal import in_callers_thread
from levada.client.consumer import Consumer as AsyncConsumer
from levada.client.consumer.prefetched_records import PREFETCH_RECORDS, PrefetchedRecords
from levada.client.types import RebalanceListener, TopicPartition
from levada.records import ConsumerRecord

if TYPE_CHECKING:
    import pyarrow as pa

ITERATION_SECONDS = 1.0


def _give_back_polled(
    client: "_PrefetchingConsumer", polled: tuple[list[ConsumerRecord], PrefetchedRecords | None]
) -> None:
    client.give_back([(record.topic, record.partition, record.offset) for record in polled[0]])


def _give_back_arrow(client: "_PrefetchingConsumer", batch: "pa.RecordBatch | None") -> None:
    if batch is not None:
        columns = (batch.column(name).to_pylist() for name in ("topic", "partition", "offset"))
        client.give_back(list(zip(*columns, strict=True)))


class Consumer(BlockingClient["_PrefetchingConsumer"]):
    """Reads records; of one thread at a time. Kafka's consumer settings are keyword arguments.

    >>> with Consumer(bootstrap, group_id="g", auto_offset_reset="earliest") as consumer:
    ...     consumer.subscribe(["orders"])
    ...     records = []
    ...     while not records:
    ...         records = consumer.poll(1.0)
    >>> records[0].topic
    'orders'
    """

    def __init__(self, bootstrap: str | Sequence[str] | None = None, **options: Any) -> None:
        super().__init__("consumer", lambda _: _PrefetchingConsumer(bootstrap, **options), AsyncConsumer.close)
        self._limit = self._client.max_poll_records
        self._prefetched: PrefetchedRecords | None = None

    def subscribe(
        self,
        topics: Collection[str] | re.Pattern[str] | str | None = None,
        *,
        pattern: str | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read topics as a member of the group, which decides who reads which partitions.

        `topics` are names, or a compiled expression that this client matches against whole names. `pattern` is an RE2
        expression that the coordinator matches (`group.protocol=consumer` only). The listener is called inside poll, by
        the thread that polls, and may use the consumer. Replaces what was subscribed before.
        """
        own = None if listener is None else _InCallersThread(listener)
        self._subscribe(topics, pattern=pattern, listener=own)

    _subscribe = at_once(AsyncConsumer.subscribe)
    unsubscribe = blocking(AsyncConsumer.unsubscribe)
    subscription = at_once(AsyncConsumer.subscription)
    assign = at_once(AsyncConsumer.assign)
    assignment = at_once(AsyncConsumer.assignment)
    pause = at_once(AsyncConsumer.pause)
    resume = at_once(AsyncConsumer.resume)
    paused = at_once(AsyncConsumer.paused)

    def poll(self, timeout: float = 1.0, max_records: int | None = None) -> list[ConsumerRecord]:
        """Up to `max_records` (else `max.poll.records`) records as soon as there are any; empty after the timeout.

        What is returned counts as consumed: `position` is behind it, and the next automatic commit includes it.
        """
        prefetched = self._prefetched
        if prefetched is not None and (records := prefetched.take(self._limit if max_records is None else max_records)):
            return records
        give_back = partial(_give_back_polled, self._client)
        records, self._prefetched = self._portal.call(self._client.poll_ahead(timeout, max_records), give_back)
        return records

    poll_arrow = blocking(AsyncConsumer.poll_arrow, _give_back_arrow)

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Record after record, without an end. Each counts as consumed when it is handed out, and not before."""
        while True:
            if self._client.is_intercepted:
                # One by one: interceptors are called on the client's own thread, and for what is handed out alone.
                yield from self.poll(ITERATION_SECONDS, 1)
            else:
                yield from self._portal.call(self._client.prefetch(ITERATION_SECONDS))

    def wakeup(self) -> None:
        """End a poll that another thread is waiting in."""
        self._portal.post(self._client.wakeup)

    seek = at_once(AsyncConsumer.seek)
    seek_to_beginning = at_once(AsyncConsumer.seek_to_beginning)
    seek_to_end = at_once(AsyncConsumer.seek_to_end)
    position = blocking(AsyncConsumer.position)
    committed = blocking(AsyncConsumer.committed)
    commit = blocking(AsyncConsumer.commit)
    commit_async = at_once(AsyncConsumer.commit_async)
    current_lag = at_once(AsyncConsumer.current_lag)
    offsets_for_times = blocking(AsyncConsumer.offsets_for_times)
    beginning_offsets = blocking(AsyncConsumer.beginning_offsets)
    end_offsets = blocking(AsyncConsumer.end_offsets)
    partitions_for = blocking(AsyncConsumer.partitions_for)
    list_topics = blocking(AsyncConsumer.list_topics)
    group_metadata = at_once(AsyncConsumer.group_metadata)
    metrics = at_once(AsyncConsumer.metrics)


class _PrefetchingConsumer(AsyncConsumer):
    """On the loop's side of a blocking consumer: hands over more than a poll takes, so that the next need not ask."""

    @property
    def max_poll_records(self) -> int:
        return self._engine.max_poll_records

    @property
    def is_intercepted(self) -> bool:
        return bool(self._engine.interceptors)

    async def poll_ahead(
        self, timeout: float, max_records: int | None
    ) -> tuple[list[ConsumerRecord], PrefetchedRecords | None]:
        """What a poll gives, and what the thread that polls may take after that."""
        records = await self.poll(timeout, max_records)
        return records, None if self.is_intercepted else self._engine.fetcher.prefetch_decoded()

    async def prefetch(self, timeout: float) -> Iterable[ConsumerRecord]:
        """What the thread that iterates hands out next."""
        return await self._prefetch(timeout, PREFETCH_RECORDS)

    def give_back(self, places: Sequence[tuple[str, int, int]]) -> None:
        """Records that were taken for a thread that was interrupted meanwhile."""
        self._engine.give_back(places)

    def forked(self, reason: str) -> None:
        """In the other process."""
        self._engine.fetcher.end_prefetch()


class _InCallersThread:
    """A listener that is called by the thread that polls: on the client's own it could not use the consumer."""

    def __init__(self, listener: RebalanceListener) -> None:
        self._listener = listener

    async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        await in_callers_thread(partial(self._listener.on_partitions_revoked, partitions))

    async def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        await in_callers_thread(partial(self._listener.on_partitions_assigned, partitions))

    async def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        # As in Java's client, a listener without `on_partitions_lost` hears that they are revoked.
        tell = getattr(self._listener, "on_partitions_lost", self._listener.on_partitions_revoked)
        await in_callers_thread(partial(tell, partitions))
