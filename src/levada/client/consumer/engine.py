"""The parts of a consumer, put together; what runs in the background knows these, and not the consumer itself."""

import asyncio
import logging
import re
from collections.abc import Collection, Mapping, Sequence

from levada.client.cluster import Cluster, ClusterView, Deadline, PartitionView, background
from levada.client.cluster.view import read_view
from levada.client.consumer.deserializing import transform_for
from levada.client.consumer.fetched import RecordReading
from levada.client.consumer.fetcher import Fetcher
from levada.client.consumer.membership import group_side
from levada.client.consumer.offset_lookup import FoundOffset, OffsetLookup
from levada.client.consumer.polling import Polling
from levada.client.consumer.positions import Positions
from levada.client.consumer.subscription import Position, Subscriptions
from levada.client.consumer.wake_signal import WakeSignal
from levada.client.default_world import default_world
from levada.client.errors import IllegalState
from levada.client.interceptors import Interceptors
from levada.client.options import Options, parse_offset_reset
from levada.client.types import RebalanceListener, TopicPartition
from levada.protocol.messages.metadata import MetadataRequest, MetadataResponse
from levada.world.world import ClientWorld

logger = logging.getLogger("levada.client")


class Engine:
    def __init__(self, options: Options, world: ClientWorld | None) -> None:
        for warning in options.warnings:
            logger.warning(warning)
        self.world = world or default_world()
        self.options = options
        self.max_poll_records: int = options["max.poll.records"]
        self.api_timeout_ms: int = options["default.api.timeout.ms"]
        self.has_default_timeout = "default.api.timeout.ms" not in options.given
        self.interceptors = Interceptors(options["interceptor.classes"], options)
        self.wake_signal = WakeSignal()
        self.cluster = Cluster(self.world, options, creates_topics=options["allow.auto.create.topics"])
        self.subscriptions = Subscriptions()
        is_committed_only = options["isolation.level"] == "read_committed"
        self.lookup = OffsetLookup(self.cluster, int(is_committed_only))
        policy = parse_offset_reset(options["auto.offset.reset"])
        self.positions = Positions(self.cluster, self.subscriptions, self.lookup, policy, self.wake_signal.changed)
        self.membership, self.commits = group_side(self.cluster, self.subscriptions, self.interceptors.on_commit)
        self.membership.on_change = self.wake_signal.arrived
        self._has_group = options["group.id"] is not None
        if self._has_group:
            self.positions.commits = self.commits
        transform = transform_for(options["key.deserializer"], options["value.deserializer"])
        reading = RecordReading(options["check.crcs"], is_committed_only, transform)
        self.fetcher = Fetcher(self.cluster, self.subscriptions, self.positions, reading, self.wake_signal)
        self.subscriptions.settle = self.fetcher.take_back_prefetched
        self.polling = Polling(
            self.cluster,
            self.subscriptions,
            self.membership,
            self.commits,
            self.positions,
            self.fetcher,
            self.wake_signal,
        )
        self.cluster.listeners.append(self._on_view)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing: asyncio.Task[None] | None = None
        self.is_closed = False
        self._is_parting = False
        """While the group is left, and its listener may still commit."""

    def start(self) -> None:
        """Before a call that asks brokers: the loop that runs at the first is the consumer's from then on."""
        self.enter()
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self.cluster.start()

    def enter(self) -> None:
        """Before a call of the user's: the positions it finds are behind all that was handed out."""
        self.check_open()
        self.fetcher.take_back_prefetched()

    def check_open(self) -> None:
        if self.is_closed and not self._is_parting:
            raise IllegalState("the consumer is closed")

    def subscribe(
        self,
        topics: Collection[str] | re.Pattern[str] | str | None,
        pattern: str | None,
        listener: RebalanceListener | None,
    ) -> None:
        self.enter()
        if (topics is None) == (pattern is None):
            raise TypeError("subscribe() takes either topics or pattern=")
        if not self._has_group:
            raise IllegalState("subscribing needs a group: set group.id, or assign partitions instead")
        if pattern is not None:
            if self.options["group.protocol"] != "consumer":
                raise IllegalState("pattern= needs group.protocol=consumer; a compiled re.Pattern works with all")
            self.subscriptions.subscribe_server_pattern(pattern, listener)
        elif isinstance(topics, re.Pattern):
            self.subscriptions.subscribe_pattern(topics, listener)
        else:
            names = [topics] if isinstance(topics, str) else list(topics or ())
            if not names or not all(names):
                raise ValueError("no topic, or one without a name; unsubscribe() gives up what was subscribed")
            self.subscriptions.subscribe(names, listener)
        self.wake_signal.changed()

    async def position(self, partition: TopicPartition, deadline: Deadline) -> int:
        self.start()
        state = self.subscriptions.state(partition)

        async def attempt() -> int:
            while state.position is None or state.reset is not None:
                self.check_open()
                if not self.subscriptions.is_assigned(partition):
                    raise IllegalState(f"{partition} is not assigned to this consumer any more")
                self.cluster.want([partition.topic])
                await self.positions.settle()
            return state.position.offset

        return await self.cluster.persist(
            attempt, deadline, f"the position of {partition} was not found", setting="default.api.timeout.ms"
        )

    def give_back(self, places: Sequence[tuple[str, int, int]]) -> None:
        """The records at these topics, partitions and offsets did not reach the user: they are read again."""
        self.fetcher.take_back_prefetched()
        self.fetcher.records_consumed -= len(places)
        firsts: dict[TopicPartition, int] = {}
        for topic, number, offset in places:
            firsts.setdefault(TopicPartition(topic, number), offset)
        for partition, offset in firsts.items():
            if self.subscriptions.is_assigned(partition):
                self.subscriptions.seek(partition, Position(offset))
        self.wake_signal.changed()

    def has_reached(self, ends: Mapping[TopicPartition | tuple[str, int], int]) -> bool:
        """Whether no position is before its end."""
        states = [(self.subscriptions.state(TopicPartition(*partition)), end) for partition, end in ends.items()]
        return all(state.position is not None and state.position.offset >= end for state, end in states)

    async def offsets(
        self, wanted: Mapping[TopicPartition, int], deadline: Deadline
    ) -> dict[TopicPartition, FoundOffset]:
        self.start()
        return await self.lookup.all(wanted, deadline)

    async def list_topics(self, deadline: Deadline) -> dict[str, Sequence[PartitionView]]:
        self.start()
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)

        async def attempt() -> ClusterView:
            response: MetadataResponse = await self.cluster.call_any(request)
            return read_view(response, ClusterView())

        what = "the topics were not listed"
        view = await self.cluster.persist(attempt, deadline, what, setting="default.api.timeout.ms")
        return {name: topic.partitions for name, topic in view.topics.items()}

    def lag(self, partition: TopicPartition) -> int | None:
        self.fetcher.take_back_prefetched()
        state = self.subscriptions.state(partition)
        is_committed_only = self.options["isolation.level"] == "read_committed"
        end = state.last_stable_offset if is_committed_only else state.high_watermark
        if end is None or end < 0 or state.position is None or state.reset is not None:
            return None
        return max(end - state.position.offset, 0)

    def metrics(self) -> dict[str, float]:
        self.fetcher.take_back_prefetched()
        loops = self.fetcher.loops.values()
        fetches = sum(loop.fetches for loop in loops)
        lags = [lag for partition in self.subscriptions.assigned() if (lag := self.lag(partition)) is not None]
        return {
            "assigned-partitions": len(self.subscriptions.assigned()),
            "bytes-consumed-total": self.fetcher.bytes_fetched,
            "fetch-latency-avg": sum(loop.latency_ms for loop in loops) / fetches if fetches else 0,
            "fetch-total": fetches,
            "poll-total": self.polling.polls,
            "records-consumed-total": self.fetcher.records_consumed,
            "records-lag-max": max(lags, default=0),
        }

    async def close(self, deadline: Deadline) -> None:
        """End everything; who calls again waits for the same."""
        if self._closing is None:
            if self.is_closed:
                return
            self.is_closed = True
            self._closing = background(self._close(deadline))
        await asyncio.shield(self._closing)

    async def _close(self, deadline: Deadline) -> None:
        self.fetcher.take_back_prefetched()
        self.polling.close()
        try:
            if self._loop is not None:
                self._is_parting = True
                await self.membership.close(deadline)
        finally:
            self._is_parting = False
            await self.commits.close()
            self.positions.close()
            await self.fetcher.close(deadline)
            await self.cluster.close()
            self.interceptors.close()
            self.subscriptions.unsubscribe()
            self.commits.run_callbacks()

    def abandon(self) -> None:
        """The consumer was dropped without a close: end its tasks, so that they do not go on for ever."""
        if self.is_closed or self._loop is None or self._loop.is_closed():
            return
        self.is_closed = True
        logger.warning("a consumer was not closed; use `async with`, or await its close()")
        try:
            self._loop.call_soon_threadsafe(self._end)
        except RuntimeError:
            # The loop was closed just now.
            return

    def _end(self) -> None:
        self._closing = background(self._close(Deadline(self.world.clock, 0)))

    def _on_view(self, view: ClusterView) -> None:
        self.positions.retry_now()
        self.wake_signal.changed()
