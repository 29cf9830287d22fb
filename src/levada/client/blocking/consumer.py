"""The consumer for code without asyncio: the same one, on a loop in a thread of its own, so that heartbeats go on."""

import re
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any

from levada.client.blocking.client import BlockingClient, at_once, blocking
from levada.client.blocking.portal import in_callers_thread
from levada.client.consumer import Consumer as AsyncConsumer
from levada.client.consumer.loan import Loan
from levada.client.types import RebalanceListener, TopicPartition
from levada.records import ConsumerRecord

ITERATION_SECONDS = 1.0


class Consumer(BlockingClient["_Lender"]):
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
        super().__init__("consumer", lambda _: _Lender(bootstrap, **options), AsyncConsumer.close)
        self._portal.before_call = self._client.recall
        self._loan: Loan | None = None

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
        loan = self._loan
        if loan is not None and not self._portal.is_forked and (records := loan.take(max_records)):
            return records
        records, self._loan = self._portal.call(self._client.poll_ahead(timeout, max_records))
        return records

    poll_arrow = blocking(AsyncConsumer.poll_arrow)

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Record after record, without an end."""
        while True:
            yield from self.poll(ITERATION_SECONDS)

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


class _Lender(AsyncConsumer):
    """On the loop's side of a blocking consumer: hands over more than a poll takes, so that the next need not ask."""

    async def poll_ahead(self, timeout: float, max_records: int | None) -> tuple[list[ConsumerRecord], Loan | None]:
        """What a poll gives, and what the thread that polls may take until `recall`, which comes before any call."""
        records = await self.poll(timeout, max_records)
        engine = self._engine
        return records, None if engine.interceptors else engine.fetcher.lend(engine.max_poll_records)

    def recall(self) -> None:
        """What was taken of the last loan counts as consumed, and nothing more is taken."""
        self._engine.recall()


class _InCallersThread:
    """A listener that is called by the thread that polls: on the client's own it could not use the consumer."""

    def __init__(self, listener: RebalanceListener) -> None:
        self._listener = listener

    async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        await in_callers_thread(partial(self._listener.on_partitions_revoked, partitions))

    async def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        await in_callers_thread(partial(self._listener.on_partitions_assigned, partitions))

    async def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        # As in Java's client, who has nothing to say about lost partitions hears that they are revoked.
        tell = getattr(self._listener, "on_partitions_lost", self._listener.on_partitions_revoked)
        await in_callers_thread(partial(tell, partitions))
