"""Drives coordinators: one for each partition of their topic that this broker leads."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar, cast

from levada.broker.journal import Decode, Encode, PartitionJournal, read_journal
from levada.broker.partition import Partition
from levada.coordination.decision import Record
from levada.coordination.shard import Machine, Shard, Token
from levada.model.errors import ApiError, CoordinatorLoadInProgress, NotCoordinator
from levada.model.hashes import coordinator_partition
from levada.protocol.errors import CodecError
from levada.records import Codec, RecordsError
from levada.world.background import OnFatal, start
from levada.world.clock import Clock
from levada.world.disk import AsyncDisk

logger = logging.getLogger(__name__)

RECORDS_AT_ONCE = 1_000
"""Replayed before others get a turn of the loop."""

FIRST_RETRY_SECONDS = 0.1
MAX_RETRY_SECONDS = 30.0
"""Between two attempts to load a partition; the time doubles from the first to the longest."""

LOAD_BUFFER_SIZE = 5 * 1024 * 1024

LOAD_ERRORS = (ApiError, OSError, RecordsError, CodecError)
"""What a disk or damaged bytes raise; anything else is a fault of ours."""

M = TypeVar("M", bound=Machine)
Reply = TypeVar("Reply")


Operation: TypeAlias = Callable[[M, Token[Reply], int], None]
"""What a request asks of a machine at a time; the token is answered now or later."""


@dataclass(frozen=True, slots=True)
class LoadFailure:
    reason: str
    retry_seconds: float


class HostedShard(Generic[M]):
    """A shard on the event loop: futures for requests that wait, one timer for the nearest deadline."""

    def __init__(
        self,
        shard: Shard[M],
        partition: Partition,
        now_ms: Callable[[], int],
        deliver: "Callable[[Token[Any], object, HostedShard[M]], None]",
        failure: LoadFailure | None,
    ) -> None:
        self.partition = partition
        self._deliver = deliver
        self.leader_epoch = partition.leader_epoch
        self.is_loaded = False
        self.is_closed = False
        self.failure = failure
        """Of the last attempt to load this partition."""
        self._shard = shard
        self._now_ms = now_ms
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0

    @property
    def is_serving(self) -> bool:
        return self.is_loaded and not self.is_closed

    @property
    def is_failed(self) -> bool:
        """Whether it could not be loaded, and has not been since."""
        return self.failure is not None and not self.is_loaded

    @property
    def is_to_be_loaded(self) -> bool:
        return not self.is_loaded and self._timer is None

    @property
    def machine(self) -> M:
        return self._shard.machine

    async def load(self, disk: AsyncDisk, decode: Decode, buffer_size: int) -> None:
        count = since_pause = 0
        async for records in read_journal(self.partition, disk, decode, buffer_size, RECORDS_AT_ONCE):
            for record in records:
                self._shard.load(record)
            count += len(records)
            since_pause += len(records)
            if since_pause >= RECORDS_AT_ONCE:
                since_pause = 0
                await asyncio.sleep(0)
            if self.is_closed:
                return
        if self.is_closed:
            # Nothing came of what was read last: compaction has emptied it.
            return
        self._shard.finish_loading(self.partition.log.end_offset, self._now_ms())
        self.is_loaded = True
        self.partition.watch(self._on_change)
        self._settle()
        if count:
            logger.info("loaded coordinator partition=%s records=%d", self.partition.name, count)

    def load_later(self, seconds: float, begin: Callable[[], None]) -> None:
        """Not before some time has passed; `begin` is called then."""

        def on_timer() -> None:
            self._timer = None
            begin()

        self._timer = asyncio.get_running_loop().call_later(seconds, on_timer)

    def run(self, operation: Callable[[M], None]) -> None:
        self._shard.run(operation, self._now_ms())
        self._settle()

    def follow(self, record: Record) -> None:
        """Take up what another has appended to the journal."""
        self._shard.follow(record, self.partition.log.end_offset)

    def close(self) -> None:
        """Answer all who wait: the coordinator is another, or will be."""
        self.is_closed = True
        self.partition.unwatch(self._on_change)
        self._shard.resign()
        self._send_output()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_change(self, _partition: Partition, _size: int) -> None:
        if self.partition.log.is_offline:
            # No client may be told what memory has beyond the log.
            logger.error("coordinator stopped partition=%s reason='its log is offline'", self.partition.name)
            self.close()
            return
        self._shard.advance()
        self._send_output()

    def _settle(self) -> None:
        self._send_output()
        self._set_timer()

    def _send_output(self) -> None:
        for token, reply in self._shard.take_output():
            self._deliver(token, reply, self)

    def _set_timer(self) -> None:
        """Deadlines mostly move back: then the timer fires for nothing and is set again."""
        deadline_ms = self._shard.machine.deadline_ms()
        if deadline_ms is None or (self._timer is not None and self._timer_ms <= deadline_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        delay_ms = max(deadline_ms - self._now_ms(), 0)
        self._timer_ms = deadline_ms
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._shard.expire(self._now_ms())
        self._settle()


class Coordinator(Generic[M]):
    """Finds the shard of a group or a transactional id, and has shards where this broker leads."""

    def __init__(
        self,
        new_machine: Callable[[], M],
        encode: Encode,
        decode: Decode,
        clock: Clock,
        disk: AsyncDisk,
        *,
        on_fatal: OnFatal | None,
        load_buffer_size: int,
        codec: Codec = Codec.NONE,
    ) -> None:
        """`on_fatal` is told when the broker cannot go on without a task that has failed."""
        self._encode = encode
        self._decode = decode
        self._new_machine = new_machine
        self._clock = clock
        self._disk = disk
        self._shards: dict[int, HostedShard[M]] = {}
        self._partition_count = 0
        self._on_fatal = on_fatal
        self.load_times_ms: list[int] = []
        self._loading: asyncio.Task[None] | None = None
        # Sessions must not end because an operator sets the clock, and what is written down must be the time of day.
        self._start_ms = clock.now_ms() - clock.monotonic_ms()
        self._load_buffer_size = load_buffer_size
        self._codec = codec

    @property
    def loading_partitions(self) -> int:
        return sum(not shard.is_loaded and not shard.is_failed for shard in self._shards.values())

    @property
    def failed_partitions(self) -> int:
        return sum(shard.is_failed for shard in self._shards.values())

    @property
    def is_loading(self) -> bool:
        return self.loading_partitions > 0

    def machines(self) -> list[M]:
        return [shard.machine for shard in self._shards.values() if shard.is_serving]

    def submit(self, identifier: str, operation: Operation[M, Reply]) -> "asyncio.Future[Reply]":
        """The reply, once it counts; ApiError if this broker cannot answer for the group or transactional id."""
        shard = self._shard_of(identifier)
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        token = cast("Token[Reply]", future)
        now_ms = self.now_ms()
        shard.run(lambda machine: operation(machine, token, now_ms))
        return future

    def follow(self, partition_count: int, partitions: Mapping[int, Partition]) -> None:
        """Take over what this broker leads now, give up what it does not."""
        self._partition_count = partition_count
        for index, shard in list(self._shards.items()):
            partition = partitions.get(index)
            if (
                partition is not shard.partition
                or not partition.is_leader
                or partition.leader_epoch != shard.leader_epoch
            ):
                del self._shards[index]
                shard.close()
        for index, partition in partitions.items():
            if partition.is_leader and index not in self._shards:
                self._shards[index] = self._host(partition)
        self._begin_loading()

    def partition_of(self, identifier: str) -> int:
        """The partition whose leader coordinates it; -1 if the topic is not there."""
        return coordinator_partition(identifier, self._partition_count) if self._partition_count else -1

    def shard_at(self, index: int) -> HostedShard[M] | None:
        """The shard of a partition, if it is here and loaded."""
        shard = self._shards.get(index)
        return shard if shard is not None and shard.is_serving else None

    def run_all(self, operation: Callable[[M, int], None]) -> None:
        now_ms = self.now_ms()
        for shard in list(self._shards.values()):
            if shard.is_serving:
                shard.run(lambda machine: operation(machine, now_ms))

    def close(self) -> None:
        if self._loading is not None:
            self._loading.cancel()
        for shard in self._shards.values():
            shard.close()
        self._shards.clear()

    def _shard_of(self, identifier: str) -> HostedShard[M]:
        shard = self._shards.get(self.partition_of(identifier))
        if shard is None or shard.is_closed or shard.is_failed:
            raise NotCoordinator("This is not the correct coordinator.")
        if not shard.is_loaded:
            raise CoordinatorLoadInProgress("The coordinator is loading and hence can't process requests.")
        return shard

    def deliver(self, token: Token[Any], reply: object, _shard: HostedShard[M]) -> None:
        """A reply is due; a client that went away has cancelled its future."""
        future = cast("asyncio.Future[object]", token)
        if future.done():
            return
        if isinstance(reply, Exception):
            future.set_exception(reply)
        else:
            future.set_result(reply)

    def _host(self, partition: Partition, failure: LoadFailure | None = None) -> HostedShard[M]:
        journal = PartitionJournal(partition, self._clock, self._encode, self._codec)
        shard = Shard(self._new_machine(), journal)
        return HostedShard(shard, partition, self.now_ms, self.deliver, failure)

    def _begin_loading(self) -> None:
        has_work = any(shard.is_to_be_loaded for shard in self._shards.values())
        if has_work and (self._loading is None or self._loading.done()):
            self._loading = start("loading of coordinators", self._load(), self._on_fatal)

    async def _load(self) -> None:
        while (shard := next((one for one in self._shards.values() if one.is_to_be_loaded), None)) is not None:
            begun_ms = self._clock.monotonic_ms()
            try:
                await shard.load(self._disk, self._decode, self._load_buffer_size)
            except Exception as error:
                # Whatever it was, the partitions that wait behind this one can be served.
                if self._shards.get(shard.partition.index) is shard:
                    self._fail(shard, error)
            else:
                self.load_times_ms.append(self._clock.monotonic_ms() - begun_ms)

    def _fail(self, shard: HostedShard[M], error: Exception) -> None:
        """Begin anew after a while, with nothing of what was loaded: the log may be mended by then."""
        is_fault = not isinstance(error, LOAD_ERRORS)
        reason = repr(error) if is_fault else str(error)
        last = shard.failure
        if last is None or last.reason != reason:
            logger.error(
                "cannot load coordinator partition=%s reason=%r; it is tried again",
                shard.partition.name,
                reason,
                exc_info=error if is_fault else None,
            )
        retry_seconds = FIRST_RETRY_SECONDS if last is None else min(2 * last.retry_seconds, MAX_RETRY_SECONDS)
        shard.close()
        again = self._host(shard.partition, LoadFailure(reason, retry_seconds))
        self._shards[shard.partition.index] = again
        again.load_later(retry_seconds, self._begin_loading)

    def now_ms(self) -> int:
        return self._start_ms + self._clock.monotonic_ms()
