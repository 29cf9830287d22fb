"""Keeps records of the assigned partitions at hand: who is asked for what, what came, and what is handed out next."""

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from levada.client.cluster import NO_NODE, Cluster, Deadline
from levada.client.consumer.fetch_faults import FetchFaults
from levada.client.consumer.fetch_loop import FOREVER_MS, FetchLimits, FetchLoop, FetchPlan, Obstacle
from levada.client.consumer.fetch_session import Ask, FetchSession, SessionKey
from levada.client.consumer.fetched import Backlog, RecordReading
from levada.client.consumer.positions import Positions
from levada.client.consumer.prefetched_records import PREFETCH_RECORDS, PREFETCH_SECONDS, PrefetchedRecords
from levada.client.consumer.read_replicas import ReadReplicas
from levada.client.consumer.subscription import AssignedPartition, Subscriptions
from levada.client.consumer.wake_signal import WakeSignal
from levada.client.errors import KafkaError
from levada.client.types import TopicPartition
from levada.model.error_codes import ErrorCode
from levada.protocol.declare import NO_UUID
from levada.protocol.messages.fetch import FetchResponse, PartitionData
from levada.records import BatchView, ConsumerRecord
from levada.world.disk import FileRange


class Batches(NamedTuple):
    """Whole batches of a partition to be read from an offset on, which may lie inside the first."""

    partition: TopicPartition
    offset: int
    batches: list[BatchView]


class _Prefetched(NamedTuple):
    backlog: Backlog
    prefetched: PrefetchedRecords
    timer: asyncio.TimerHandle
    """Ends it."""


class Fetcher:
    """Up to `fetch.max.bytes` from each broker wait here to be read, and of a partition about two answers."""

    def __init__(
        self,
        cluster: Cluster,
        subscriptions: Subscriptions,
        positions: Positions,
        reading: RecordReading,
        wake_signal: WakeSignal,
    ) -> None:
        options = cluster.options
        self.loops: dict[int, FetchLoop] = {}
        self.bytes_fetched = 0
        self.records_consumed = 0
        """Prefetched records count once their reader has ended."""
        self.is_behind = False
        """Reading has made room for a fetch, which is sent as soon as its loop gets a turn."""
        self._cluster = cluster
        self._subscriptions = subscriptions
        self._positions = positions
        self._reading = reading
        self._wake_signal = wake_signal
        self._limits = FetchLimits(
            min_bytes=options["fetch.min.bytes"],
            max_wait_ms=options["fetch.max.wait.ms"],
            isolation_level=int(reading.is_committed_only),
            rack=options["client.rack"],
        )
        self._max_bytes: int = options["fetch.max.bytes"]
        self._partition_max_bytes: int = options["max.partition.fetch.bytes"]
        self._replica_ms: int = options["metadata.max.age.ms"]
        self._backlogs: dict[TopicPartition, Backlog] = {}
        self._ready: dict[TopicPartition, Backlog] = {}
        """Those that have something, the next to be read first."""
        self._read_replicas = ReadReplicas(cluster, subscriptions)
        self._assignment_seen = -1
        self._faults = FetchFaults(cluster, has_policy=positions.has_policy)
        self._failure: KafkaError | None = None
        self._prefetched: _Prefetched | None = None

    # Reading: without waiting, so that nothing is lost when a poll is cancelled

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Up to so many records, which count as consumed with that; partitions take turns batch by batch."""
        self._drop_unassigned()
        taken: list[ConsumerRecord] = []
        while (room := limit - len(taken)) > 0 and (records := self._take_round(room, is_first=not taken)):
            if taken:
                taken += records
            else:
                taken = records
        if not taken:
            self._raise_failure()
        self.records_consumed += len(taken)
        return taken

    def _take_round(self, limit: int, *, is_first: bool) -> list[ConsumerRecord]:
        """From each partition once; faults are raised while there is nothing else to return."""
        taken: list[ConsumerRecord] = []
        for backlog in list(self._ready.values()):
            if not _is_readable(backlog):
                continue
            unread = backlog.unread_bytes
            try:
                records = backlog.take(limit - len(taken), self._reading)
                if not records and not taken and is_first and backlog.failure is not None:
                    self._faults.face(backlog)
            except KafkaError:
                if taken or not is_first:
                    break
                raise
            finally:
                self._has_read(backlog, unread)
            if taken:
                taken += records
            else:
                taken = records
            if len(taken) >= limit:
                break
        return taken

    def prefetch(self, limit: int) -> PrefetchedRecords | None:
        """Up to so many records of one partition, to be handed out one by one until `take_back_prefetched`."""
        self._drop_unassigned()
        for backlog in list(self._ready.values()):
            if not _is_readable(backlog):
                continue
            unread = backlog.unread_bytes
            try:
                prefetched = backlog.prefetch(limit, self._reading)
                if prefetched is None and backlog.failure is not None:
                    self._faults.face(backlog)
            finally:
                self._has_read(backlog, unread)
            if prefetched is not None:
                return self._begin(backlog, prefetched)
        self._raise_failure()
        return None

    def prefetch_decoded(self) -> PrefetchedRecords | None:
        """What the last `take` has decoded and left, for another thread's next polls."""
        backlog = next(filter(_is_readable, self._ready.values()), None)
        if backlog is None or not backlog.is_in_batch:
            return None
        prefetched = backlog.prefetch(PREFETCH_RECORDS, self._reading)
        return None if prefetched is None else self._begin(backlog, prefetched)

    def _begin(self, backlog: Backlog, prefetched: PrefetchedRecords) -> PrefetchedRecords:
        assert self._prefetched is None, "a poll ends the prefetch before it"
        timer = asyncio.get_running_loop().call_later(PREFETCH_SECONDS, self.take_back_prefetched)
        self._prefetched = _Prefetched(backlog, prefetched, timer)
        return prefetched

    def take_back_prefetched(self) -> None:
        """End the prefetch, if there is one: what was taken of it counts as consumed, and nothing more is taken.

        Comes before all that looks at positions or takes records, and after some time.
        """
        if self._prefetched is None:
            return
        (backlog, prefetched, timer), self._prefetched = self._prefetched, None
        timer.cancel()
        count = prefetched.end()
        self.records_consumed += count
        unread = backlog.unread_bytes
        backlog.take_back(count)
        if self._backlogs.get(backlog.partition) is backlog:
            self._has_read(backlog, unread)
        else:
            # Dropped meanwhile; what took its place begins before what was taken.
            self._wake_signal.changed()

    def end_prefetch(self) -> None:
        """In a fork, which has no loop: the records belong to the other process."""
        if self._prefetched is not None:
            self._prefetched.prefetched.end()

    def peek_batches(self) -> list[Batches]:
        """All that may be handed out now, in whole batches; `skip_batches` makes it count as consumed."""
        self._drop_unassigned()
        peeked: list[Batches] = []
        for backlog in list(self._ready.values()):
            if not _is_readable(backlog):
                continue
            unread = backlog.unread_bytes
            try:
                batches = backlog.peek_batches(self._reading)
                if batches:
                    peeked.append(Batches(backlog.partition, backlog.position.offset, batches))
                    continue
                try:
                    backlog.skip_batches(0)
                    if not peeked and backlog.failure is not None:
                        self._faults.face(backlog)
                finally:
                    self._has_read(backlog, unread)
            except KafkaError:
                if peeked:
                    break
                raise
        if not peeked:
            self._raise_failure()
        return peeked

    def skip_batches(self, peeked: Iterable[Batches]) -> None:
        """These count as consumed: of each partition all batches that were peeked at, or the first of them."""
        for each in peeked:
            backlog = self._backlogs[each.partition]
            unread = backlog.unread_bytes
            backlog.skip_batches(len(each.batches))
            self._has_read(backlog, unread)

    def _has_read(self, backlog: Backlog, unread_before: int) -> None:
        """Something may have been taken: there may be room for a fetch, and the others come first next time."""
        if size := unread_before - backlog.unread_bytes:
            is_full = backlog.unread_bytes > self._partition_max_bytes
            for loop in self.loops.values():
                self.is_behind |= loop.has_been_read(backlog, size, is_full=is_full)
        partition = backlog.partition
        if backlog.is_stale:
            self._drop(partition)
            self._wake_signal.changed()
        elif not backlog.is_in_batch:
            # Not before the batch is done: decoded records of many partitions would fill the caches.
            self._ready.pop(partition, None)
            if not backlog.is_empty:
                self._ready[partition] = backlog

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    # Fetching

    def arrange(self) -> None:
        """See that each broker with partitions to read is asked for them; after every change."""
        self._drop_unassigned()
        for partition in [partition for partition, backlog in self._backlogs.items() if backlog.is_stale]:
            self._drop(partition)
        brokers = self._cluster.view.brokers
        for node_id in [node_id for node_id, loop in self.loops.items() if node_id not in brokers or loop.is_over]:
            self.loops.pop(node_id).abandon()
        for node_id in self._read_replicas.by_node(self._cluster.world.clock.monotonic_ms()):
            if node_id in brokers and node_id not in self.loops:
                self.loops[node_id] = FetchLoop(self._cluster, self, self._limits, node_id)
        for loop in self.loops.values():
            loop.wake()

    def plan(self, node_id: int) -> FetchPlan | Obstacle:
        """What to fetch from a broker: each partition with room for more, once there is room for all of them.

        A fetch for some of them would hold up the others, as there is one at a time, and make the broker forget them.
        """
        self._drop_unassigned()
        self.is_behind = False
        now_ms = self._cluster.world.clock.monotonic_ms()
        plan = FetchPlan({}, {}, 0)
        buffered = 0
        retry_in_ms = FOREVER_MS
        for source in self._read_replicas.by_node(now_ms).get(node_id, ()):
            partition, state = source.partition, source.state
            if not state.is_fetchable or not self._is_sound(partition, state):
                continue
            backlog = self._backlog(partition, state)
            if backlog.failure is not None:
                continue
            if backlog.unread_bytes > self._partition_max_bytes:
                return Obstacle(full=backlog)
            buffered += backlog.unread_bytes
            if backlog.retry_at_ms > now_ms:
                retry_in_ms = min(retry_in_ms, backlog.retry_at_ms - now_ms)
                continue
            key = SessionKey(partition.topic, source.topic_id, partition.partition)
            plan.asks[key] = Ask(backlog.fetch_offset, source.leader_epoch, self._partition_max_bytes)
            plan.backlogs[key] = backlog
        if plan.asks and (excess := buffered - self._max_bytes // 2) > 0:
            return Obstacle(excess_bytes=excess)
        plan.max_bytes = self._max_bytes - buffered
        return plan if plan.asks else Obstacle(retry_in_ms=retry_in_ms)

    def is_outdated(self, node_id: int, plan: FetchPlan) -> bool:
        """Whether a partition was added, or is to be read from another place, since the plan was made."""
        fresh = self.plan(node_id)
        return isinstance(fresh, FetchPlan) and any(
            key not in plan.asks or plan.asks[key].offset != ask.offset for key, ask in fresh.asks.items()
        )

    def is_wanted(self, plan: FetchPlan) -> bool:
        return any(self._is_current(backlog) for backlog in plan.backlogs.values())

    def absorb(self, node_id: int, plan: FetchPlan, response: FetchResponse, session: FetchSession) -> None:
        """Put what came where it belongs; what is not wanted any more is left out."""
        keys = plan.keys() if response.responses else {}
        for topic in response.responses:
            name = topic.topic if topic.topic_id == NO_UUID else topic.topic_id
            for answer in topic.partitions:
                key = keys.get((name, answer.partition_index))
                if key is None:
                    continue
                if answer.records:
                    session.has_read(key)
                backlog = plan.backlogs[key]
                if self._is_current(backlog):
                    self._absorb(node_id, backlog, answer)
        self._wake_signal.arrived()

    def fail(self, error: KafkaError) -> None:
        """Raised by the next poll."""
        self._failure = error
        self._wake_signal.arrived()

    async def close(self, deadline: Deadline) -> None:
        loops = list(self.loops.values())
        self.loops.clear()
        self._backlogs.clear()
        self._ready.clear()
        await asyncio.gather(*(loop.close(deadline) for loop in loops))

    def abandon(self) -> None:
        for loop in self.loops.values():
            loop.abandon()

    def _absorb(self, node_id: int, backlog: Backlog, answer: PartitionData) -> None:
        partition, state = backlog.partition, backlog.state
        hint = answer.current_leader
        if hint is not None and hint.leader_id != NO_NODE:
            self._cluster.heard_of_leader(*partition, hint.leader_id, hint.leader_epoch)
        if answer.error_code != ErrorCode.NONE:
            self._faults.note(backlog, answer.error_code, is_from_replica=state.read_replica == node_id)
            self._read_replicas.forget()
            if backlog.failure is not None:
                self._ready[partition] = backlog
            self._wake_signal.changed()
            return
        if answer.high_watermark >= 0:
            state.high_watermark = answer.high_watermark
            state.last_stable_offset = answer.last_stable_offset
        if answer.log_start_offset >= 0:
            state.log_start_offset = answer.log_start_offset
        if answer.preferred_read_replica != NO_NODE:
            state.read_replica = answer.preferred_read_replica
            state.read_replica_until_ms = self._cluster.world.clock.monotonic_ms() + self._replica_ms
            self._read_replicas.forget()
            self._wake_signal.changed()
        if answer.records:
            assert not isinstance(answer.records, FileRange), "only brokers send files"
            self.bytes_fetched += backlog.add(answer.records, answer.aborted_transactions)
            backlog.node_id = node_id
            if not backlog.is_empty:
                self._ready[partition] = backlog

    def _backlog(self, partition: TopicPartition, state: AssignedPartition) -> Backlog:
        backlog = self._backlogs.get(partition)
        if backlog is None or backlog.is_stale:
            self._ready.pop(partition, None)
            assert state.position is not None, "only fetchable ones are asked for"
            backlog = self._backlogs[partition] = Backlog(partition, state, state.position)
        return backlog

    def _is_sound(self, partition: TopicPartition, state: AssignedPartition) -> bool:
        if self._positions.is_sound(partition, state):
            return True
        # Another leader: what came from the one before may not be in its log.
        self._drop(partition)
        self._positions.start_if_needed()
        return False

    def _is_current(self, backlog: Backlog) -> bool:
        return self._backlogs.get(backlog.partition) is backlog and not backlog.is_stale

    def _drop(self, partition: TopicPartition) -> None:
        self._backlogs.pop(partition, None)
        self._ready.pop(partition, None)

    def _drop_unassigned(self) -> None:
        if self._assignment_seen == self._subscriptions.assignment_version:
            return
        self._assignment_seen = self._subscriptions.assignment_version
        states = dict(self._subscriptions.states())
        for partition in [each for each, backlog in self._backlogs.items() if states.get(each) is not backlog.state]:
            self._drop(partition)


def _is_readable(backlog: Backlog) -> bool:
    state = backlog.state
    return not state.is_paused and not state.is_being_revoked and not backlog.is_stale
