"""The asyncio consumer: reads records of topics, alone or as a member of a group."""

import logging
import math
import re
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from operator import index
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from levada.client.arguments import check_kind, check_timeout, checked
from levada.client.cluster import Deadline, PartitionView
from levada.client.consumer.arrow_poll import check_arrow, take_arrow
from levada.client.consumer.engine import Engine
from levada.client.consumer.offset_lookup import EARLIEST, LATEST, UNKNOWN_OFFSET
from levada.client.consumer.subscription import Position, Reset
from levada.client.errors import KafkaError
from levada.client.options import consumer_options
from levada.client.types import (
    GroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Offsets,
    Partition,
    RebalanceListener,
    TopicPartition,
    positions_of,
)
from levada.records import ConsumerRecord
from levada.world.world import ClientWorld

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger("levada.client")

CommitCallback: TypeAlias = Callable[[Mapping[TopicPartition, OffsetAndMetadata], KafkaError | None], None]

ITERATION_SECONDS = 3600.0
CLOSE_SECONDS = 30.0


class Consumer:
    """Of one loop and one task: calls may come from a rebalance listener while a poll awaits it, but not two polls.

    Options are Kafka's, as keyword arguments (`group_id="g"`) or by their dotted names (`**{"group.id": "g"}`).
    Times are seconds. Without a deserializer keys and values are bytes, or None.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        world: ClientWorld | None = None,
        **options: Any,
    ) -> None:
        self._engine = Engine(consumer_options(bootstrap, options), world)

    async def __aenter__(self) -> "Consumer":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        engine: Engine | None = getattr(self, "_engine", None)
        if engine is not None:
            engine.abandon()

    # What to read

    @checked
    def subscribe(
        self,
        topics: Collection[str] | re.Pattern[str] | str | None = None,
        *,
        pattern: str | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read topics as a member of the group, which decides who reads which partitions.

        `topics` are names, or a compiled expression that this client matches against whole names, again whenever
        topics come and go. `pattern` is an RE2 expression that the coordinator matches (`group.protocol=consumer`
        only), so that no client has to know all topics. The listener is called inside poll. Replaces what was
        subscribed before.
        """
        self._engine.subscribe(topics, pattern, listener)

    @checked
    def assign(self, partitions: Collection[Partition]) -> None:
        """Read these partitions, without a group's help; replaces what was assigned before."""
        self._engine.enter()
        self._engine.subscriptions.assign([TopicPartition(*partition) for partition in dict.fromkeys(partitions)])
        self._engine.wake_signal.changed()

    async def unsubscribe(self) -> None:
        """Leave the group, or give up what was assigned."""
        self._engine.enter()
        await self._engine.membership.unsubscribe()
        self._engine.subscriptions.unsubscribe()
        self._engine.wake_signal.changed()

    def subscription(self) -> frozenset[str]:
        """The topics subscribed to: by name, or as far as the pattern has found any."""
        subscriptions = self._engine.subscriptions
        return subscriptions.topics if subscriptions.is_group_managed else frozenset()

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._engine.subscriptions.assigned())

    @checked
    def pause(self, partitions: Collection[Partition]) -> None:
        """Hand out nothing of these until `resume`; what is fetched already is kept."""
        self._set_paused(partitions, is_paused=True)

    @checked
    def resume(self, partitions: Collection[Partition]) -> None:
        self._set_paused(partitions, is_paused=False)

    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(partition for partition, state in self._engine.subscriptions.states() if state.is_paused)

    # Reading

    async def poll(self, timeout: float = 1.0, max_records: int | None = None) -> list[ConsumerRecord]:
        """Up to `max_records` (else `max.poll.records`) records as soon as there are any; empty after the timeout.

        What is returned counts as consumed: `position` is behind it, and the next automatic commit includes it. A
        poll that is cancelled consumes nothing.
        """
        check_timeout(timeout)
        engine = self._engine
        engine.start()
        if max_records is not None:
            check_kind(max_records, int, "max_records")
        limit = engine.max_poll_records if max_records is None else index(max_records)
        if limit <= 0:
            raise ValueError(f"max_records must be at least 1, not {max_records}")
        records = await engine.polling.run(lambda: engine.fetcher.take(limit), timeout * 1_000)
        return engine.interceptors.on_consume(records) if engine.interceptors and records else records

    @checked
    async def poll_arrow(
        self, timeout: float = 1.0, *, max_rows: float = math.inf, until: Mapping[Partition, int] | None = None
    ) -> "pa.RecordBatch | None":
        """All that is at hand as one Arrow RecordBatch, as soon as there is something; None after the timeout.

        The columns are key, value (bytes: deserializers and interceptors have no part in this), topic, partition,
        offset, timestamp, timestampType and headers, as Spark names them. Needs pyarrow (`levada[arrow]`).
        With `max_rows` not more batches than have so many records, or the first. With `until` it is None as soon as
        all these positions are reached: what lies before them may be nothing but markers and aborted records.
        """
        check_arrow()
        engine = self._engine
        engine.start()

        def take() -> "pa.RecordBatch | bool":
            return take_arrow(engine.fetcher, max_rows) or (until is not None and engine.has_reached(until))

        found = await engine.polling.run(take, timeout * 1_000)
        if isinstance(found, bool):
            return None
        engine.fetcher.records_consumed += found.num_rows
        return found

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Record after record, without an end. Each counts as consumed when it is handed out, and not before."""
        engine = self._engine
        while True:
            for record in await self._prefetch(ITERATION_SECONDS, engine.max_poll_records):
                yield record

    def wakeup(self) -> None:
        """The poll that waits, or else the next one, returns at once, if with nothing; to be called on the loop."""
        self._engine.polling.wake()

    # Positions

    @checked
    def seek(self, partition: Partition, offset: int | OffsetAndMetadata) -> None:
        """Read on from this offset."""
        self._engine.enter()
        number, epoch = (offset, None) if isinstance(offset, int) else (offset.offset, offset.leader_epoch)
        if number < 0:
            raise ValueError(f"{number} is no offset to seek to")
        position = Position(number) if epoch is None else Position(number, epoch)
        self._engine.subscriptions.seek(TopicPartition(*partition), position)
        self._engine.wake_signal.changed()

    @checked
    def seek_to_beginning(self, partitions: Collection[Partition] = ()) -> None:
        """Read on from the first record of these partitions, or of all; found out by the next poll or `position`."""
        self._seek_to(partitions, Reset.EARLIEST)

    @checked
    def seek_to_end(self, partitions: Collection[Partition] = ()) -> None:
        """Read on behind the last record of these partitions, or of all; found out by the next poll or `position`."""
        self._seek_to(partitions, Reset.LATEST)

    @checked
    async def position(self, partition: Partition, timeout: float | None = None) -> int:
        """The offset of the next record that a poll returns, looked up if need be."""
        return await self._engine.position(TopicPartition(*partition), self._deadline(timeout))

    @checked
    async def committed(
        self, partitions: Collection[Partition], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None where it has nothing."""
        self._engine.start()
        wanted = [TopicPartition(*partition) for partition in partitions]
        return await self._engine.commits.committed(wanted, self._deadline(timeout))

    @checked
    async def commit(self, offsets: Offsets | None = None, timeout: float | None = None) -> None:
        """Commit these offsets (of the next record to read), or all positions, and wait until it is done."""
        self._engine.start()
        await self._engine.commits.commit(self._to_commit(offsets), self._deadline(timeout))

    @checked
    def commit_async(self, offsets: Offsets | None = None, callback: CommitCallback | None = None) -> None:
        """Begin to commit these offsets, or all positions; the callback is called inside a later poll or commit."""
        self._engine.start()
        self._engine.commits.commit_soon(self._to_commit(offsets), callback)

    @checked
    def current_lag(self, partition: Partition) -> int | None:
        """How many offsets the position is behind the end that may be read, as last heard; None if not known."""
        return self._engine.lag(TopicPartition(*partition))

    @checked
    async def offsets_for_times(
        self, times_ms: Mapping[Partition, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """For each partition the first record that is not older; None where all are older."""
        wanted = {TopicPartition(*partition): time_ms for partition, time_ms in times_ms.items()}
        for partition, time_ms in wanted.items():
            if time_ms < 0:
                raise ValueError(f"{time_ms} is no time in ms since 1970 (for {partition})")
        found = await self._engine.offsets(wanted, self._deadline(timeout))
        return {
            partition: None
            if each.offset == UNKNOWN_OFFSET
            else OffsetAndTimestamp(
                each.offset, each.timestamp_ms, each.leader_epoch if each.leader_epoch >= 0 else None
            )
            for partition, each in found.items()
        }

    @checked
    async def beginning_offsets(
        self, partitions: Collection[Partition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return await self._ends(partitions, EARLIEST, timeout)

    @checked
    async def end_offsets(
        self, partitions: Collection[Partition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset behind the last record that this consumer may read: committed ones, under `read_committed`."""
        return await self._ends(partitions, LATEST, timeout)

    # The cluster and the group

    @checked
    async def partitions_for(self, topic: str, timeout: float | None = None) -> Sequence[PartitionView]:
        """Leader and replicas of each partition of a topic."""
        self._engine.start()
        return (await self._engine.cluster.topic(topic, self._deadline(timeout))).partitions

    @checked
    async def list_topics(self, timeout: float | None = None) -> dict[str, Sequence[PartitionView]]:
        """All topics that this client may see."""
        return await self._engine.list_topics(self._deadline(timeout))

    def group_metadata(self) -> GroupMetadata:
        """Who this consumer is in its group, for a transactional producer."""
        return self._engine.membership.group_metadata()

    def metrics(self) -> dict[str, float]:
        """Numbers by the names that Kafka's consumer has for them."""
        return self._engine.metrics()

    @checked
    async def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Commit if that is automatic, leave the group, and end; again is harmless."""
        await self._engine.close(Deadline(self._engine.world.clock, timeout * 1_000))

    # Inside

    async def _prefetch(self, timeout: float, limit: int) -> Iterable[ConsumerRecord]:
        """Up to so many records to be handed out one by one, as soon as there are any; none after the timeout."""
        engine = self._engine
        engine.start()
        prefetched = await engine.polling.run(lambda: engine.fetcher.prefetch(limit), timeout * 1_000)
        if prefetched is None:
            return ()
        on_consume = engine.interceptors.on_consume
        return chain.from_iterable(on_consume([record]) for record in prefetched) if engine.interceptors else prefetched

    def _set_paused(self, partitions: Collection[Partition], *, is_paused: bool) -> None:
        self._engine.enter()
        for state in [self._engine.subscriptions.state(TopicPartition(*partition)) for partition in partitions]:
            state.is_paused = is_paused
        self._engine.wake_signal.changed()

    def _seek_to(self, partitions: Collection[Partition], reset: Reset) -> None:
        self._engine.enter()
        self._engine.subscriptions.seek_to([TopicPartition(*partition) for partition in partitions], reset)
        self._engine.positions.retry_now()
        self._engine.wake_signal.changed()

    def _to_commit(self, offsets: Offsets | None) -> dict[TopicPartition, OffsetAndMetadata]:
        return self._engine.subscriptions.consumed() if offsets is None else positions_of(offsets)

    async def _ends(
        self, partitions: Collection[Partition], end: int, timeout: float | None
    ) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys([TopicPartition(*partition) for partition in partitions], end)
        found = await self._engine.offsets(wanted, self._deadline(timeout))
        return {partition: each.offset for partition, each in found.items()}

    def _deadline(self, timeout: float | None) -> Deadline:
        """Of a call of the user's: what it says, else `default.api.timeout.ms`."""
        engine = self._engine
        if timeout is None:
            return Deadline(engine.world.clock, engine.api_timeout_ms, is_default=engine.has_default_timeout)
        return Deadline(engine.world.clock, timeout * 1_000)
