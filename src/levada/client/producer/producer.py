"""The producer, on asyncio: records in, batches out, each acknowledged or accounted for."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from levada.client.arguments import checked
from levada.client.cluster import Cluster, Deadline, PartitionView
from levada.client.default_world import default_world
from levada.client.errors import BufferExhausted, IllegalState, KafkaError, TimedOut
from levada.client.options import producer_options
from levada.client.options.older_keys import WAIT_FOR_ROOM
from levada.client.producer.accumulator import Accumulator
from levada.client.producer.batch import OnDelivery
from levada.client.producer.bulk import ArrowRows, Bulk, ListRows, Rows
from levada.client.producer.front import Front
from levada.client.producer.group_commit import TransactionTicket
from levada.client.producer.handle import Handle, ManyHandle, wait_in_loop
from levada.client.producer.intake import HeadersInput, Intake, Prepared, check_place
from levada.client.producer.outcome import BatchOutcomes
from levada.client.producer.routes import Routes, TopicQueues
from levada.client.producer.sender import Sender
from levada.client.producer.session import IdempotentSession, PlainSession, Session, TransactionalSession
from levada.client.types import GroupMetadata, Offsets, positions_of
from levada.model.buffers import Buffer
from levada.world.world import ClientWorld

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger("levada.client")

CLOSED = "the producer is closed"
INTERRUPTED_SECONDS = 4.0
"""How long it takes at most to leave a block that was interrupted."""


class Producer:
    """Sends records from asyncio code.

    Keyword arguments are Kafka's producer settings, `linger_ms=5` or `**{"linger.ms": 5}`.

    >>> async def main():
    ...     async with Producer(bootstrap) as producer:
    ...         handle = await producer.send("orders", b"first", key=b"anna", headers={"tag": b"vip"})
    ...         metadata = await handle
    ...         return metadata.topic, metadata.partition
    >>> asyncio.run(main())
    ('orders', 0)
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        world: ClientWorld | None = None,
        wake: Callable[[Callable[[], None]], None] | None = None,
        **options: Any,
    ) -> None:
        self.options = producer_options(bootstrap, options)
        for warning in self.options.warnings:
            logger.warning("%s", warning)
        self._world = world or default_world()
        self._clock = self._world.clock
        self._cluster = Cluster(self._world, self.options)
        self._cluster.listeners.append(self._saw)
        self._cluster.on_end = self._loop_ended
        self._max_block_ms: int = self.options["max.block.ms"]
        self._wait_for_room_ms: int | None = self.options.limits.get(WAIT_FOR_ROOM)
        self._wake = wake or self._wake_loop
        self._accumulator = Accumulator(self.options, self._clock.monotonic_ms, self._woken)
        self._routes = Routes(self.options, self._world.entropy.below, self._clock.monotonic_ms)
        self._session: Session = self._new_session()
        self._intake = Intake(self.options, self._routes, self._accumulator, self._clock.now_ms)
        self._fronts: list[Front] = []
        self._front = self.new_front(_no_handle)
        self._outcomes = BatchOutcomes(
            self._cluster,
            self.options,
            self._accumulator,
            is_transactional=self._session.transactional_id is not None,
            on_failure=self._lost_a_batch,
        )
        self._sender = Sender(self._cluster, self.options, self._accumulator, self._session, self._outcomes)
        self._room = asyncio.Event()
        self._accumulator.on_room = self._room.set
        self._is_pump_due = False
        self._refusal: str | None = None
        """Why it cannot be used any more."""

    # Sending

    async def send(
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
        """Put a record on its way; await the handle for its place in the log.

        Waits up to `max.block.ms` for the topic to be known, and for room in `buffer.memory`.
        """
        handle: Handle | None = self._front.send(
            topic,
            value,
            key=key,
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
            on_delivery=on_delivery,
        )
        if handle is not None:
            return handle
        record = self.prepare(topic, value, key, headers, partition, timestamp_ms, on_delivery)
        if self._is_pump_due:
            # A batch is full: the sender shall have its turn before the next one. Nothing is awaited after the record
            # is in a batch, so a send that is cancelled has sent nothing.
            await asyncio.sleep(0)
        handle = self.try_put(record)
        return await self.put(record) if handle is None else handle

    def new_front(self, longer: Callable[..., Handle | None]) -> Front:
        """What a send tries first, from any thread; `longer` is asked for what takes more."""
        front = Front(
            self._routes.topics,
            Handle,
            self._accumulator.append_open,
            self._clock.now_ms,
            None if self._session.transactional_id is None else self._session.check_send,
            longer,
            uses_system_time=getattr(self._clock, "is_system_time", False),
        )
        front.is_open = self._intake.is_plain
        self._fronts.append(front)
        return front

    def _close_fronts(self) -> None:
        """From now on every send is looked at closely."""
        for front in self._fronts:
            front.is_open = False

    def prepare(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: HeadersInput,
        partition: int | None,
        timestamp_ms: int | None,
        on_delivery: OnDelivery | None,
    ) -> Prepared:
        """A record ready to be put into a batch; from any thread."""
        self._check_open()
        self._session.check_send()
        return self._intake.prepare(topic, value, key, headers, partition, timestamp_ms, on_delivery)

    def try_put(self, record: Prepared) -> Handle | None:
        """Put it into a batch without waiting, from any thread; None when that would take waiting."""
        return self._intake.put(record)

    async def put(self, record: Prepared) -> Handle:
        """Put it into a batch, waiting for its topic or for memory."""
        check_place(record[0], record[4], "send()")
        deadline = self._deadline(None)
        await self._topic(record[0], record[4], deadline)
        while True:
            releases = self._accumulator.releases
            handle = self.try_put(record)
            if handle is not None:
                return handle
            if self._wait_for_room_ms is not None:
                deadline = Deadline(self._clock, self._wait_for_room_ms)
            await self._room_after(releases, deadline)

    async def send_many(
        self,
        topic: str,
        values: Sequence[Buffer | None],
        *,
        keys: Sequence[Buffer | None] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> ManyHandle:
        """Send many values at once, several times faster than one by one; await the handle for all of them."""
        bulk = await self.bulk(topic, self.rows(values, keys, timestamp_ms), partition)
        return await self._write(bulk)

    async def send_arrow(self, topic: str, batch: "pa.RecordBatch", *, partition: int | None = None) -> ManyHandle:
        """Send each row of an Arrow batch: column `value`, and `key`, `headers`, `timestamp`, `partition` if any."""
        bulk = await self.bulk(topic, ArrowRows(batch, self.now_ms()), partition)
        return await self._write(bulk)

    def rows(self, values: Sequence[Any], keys: Sequence[Any] | None, timestamp_ms: int | None) -> ListRows:
        return self._intake.rows(values, keys, timestamp_ms)

    async def bulk(self, topic: str, rows: Rows, partition: int | None) -> Bulk:
        """A bulk send that is ready to be stepped."""
        check_place(topic, partition, "send_many()")
        self._check_open()
        self._session.check_send()
        queues = await self._topic(topic, partition, self._deadline(None))
        return Bulk(self._accumulator, self._routes, queues, rows, partition)

    async def _write(self, bulk: Bulk) -> ManyHandle:
        while not bulk.is_done:
            if bulk.step():
                await asyncio.sleep(0)
            else:
                await self.wait_for_room(bulk.releases)
        return bulk.handle()

    async def wait_for_room(self, releases: int) -> None:
        """Wait for more memory than there was after so many releases, up to `max.block.ms`."""
        limit_ms = self._max_block_ms if self._wait_for_room_ms is None else self._wait_for_room_ms
        await self._room_after(releases, Deadline(self._clock, limit_ms))

    def now_ms(self) -> int:
        """The time that records are given."""
        return self._clock.now_ms()

    @checked
    async def flush(self, timeout: float | None = None) -> None:
        """Send everything now, and wait until it is acknowledged or has failed; at most `timeout` seconds."""
        batches = self._accumulator.flush()
        self._woken()
        try:
            async with asyncio.timeout(timeout):
                await wait_in_loop(batches)
        except TimeoutError as error:
            left = sum(batch.count for batch in batches if not batch.is_done)
            raise TimedOut(
                f"{left} record(s) had no outcome within {timeout} s; they are still on their way"
            ) from error

    @checked
    async def partitions_for(self, topic: str) -> Sequence[PartitionView]:
        """The partitions of a topic: leaders and replicas."""
        self._start()
        view = await self._cluster.topic(topic, self._deadline(None))
        return view.partitions

    # Transactions

    @checked
    async def init_transactions(self, timeout: float | None = None) -> None:
        """Register the `transactional.id`: older producers with it are fenced, their open transaction is aborted."""
        self._start()
        await self._transactions.init(self._deadline(timeout))

    async def begin_transaction(self) -> None:
        self._transactions.begin()

    @checked
    async def commit_transaction(self, timeout: float | None = None) -> None:
        """Send the rest, then make all of it visible at once, offsets included; raises and leaves it open if not."""
        await self._transactions.commit(self.flush, self._deadline(timeout))
        self._sender.pump()

    @checked
    async def abort_transaction(self, timeout: float | None = None) -> None:
        """Drop what was not sent, and have the brokers forget the rest."""
        await self._transactions.abort(self._outcomes, self._deadline(timeout))
        self._sender.pump()

    @checked
    async def send_offsets_to_transaction(
        self,
        offsets: Offsets,
        group: GroupMetadata,
        timeout: float | None = None,
    ) -> None:
        """Commit a consumer's offsets as a part of the transaction; `group` is its `group_metadata()`."""
        await self._transactions.send_offsets(positions_of(offsets), group, self._deadline(timeout))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Begin a transaction; commit it at the end of the block, or abort it if the block raises."""
        await self.begin_transaction()
        try:
            yield
        except BaseException as error:
            await self.abort_after(error)
            raise
        await self.commit_or_abort()

    async def commit_or_abort(self) -> None:
        """Commit; what cannot be committed is aborted, and the reason raised."""
        try:
            await self.commit_transaction()
        except KafkaError:
            if self._transactions.must_abort:
                await self.abort_transaction()
            raise

    async def abort_after(self, error: BaseException) -> None:
        """Abort, unless a fenced producer has nothing to say any more; an interrupted user need not wait for long."""
        if self._transactions.is_fenced:
            return
        if isinstance(error, Exception):
            await self.abort_transaction()
            return
        try:
            await self.abort_transaction(INTERRUPTED_SECONDS)
        except KafkaError as failure:
            logger.warning("the transaction was left to transaction.timeout.ms: %s", failure)

    async def hand_over_transaction(self) -> TransactionTicket:
        """Send everything and leave the transaction open for another producer to commit with `commit_group`."""
        return await self._transactions.hand_over(self.flush, self._deadline(None))

    @checked
    async def commit_group(self, tickets: Iterable[TransactionTicket], timeout: float | None = None) -> None:
        """Commit this transaction and those handed over to it, all or none. Only Levada's brokers can do it."""
        await self._transactions.commit_group(list(tickets), self.flush, self._deadline(timeout))
        self._sender.pump()

    # Life

    @checked
    async def close(self, timeout: float | None = None) -> None:
        """Send the rest, waiting up to `timeout` seconds, and hang up; what is left then fails."""
        if self._refusal is not None:
            return
        self._refuse(CLOSED)
        self._accumulator.shut(CLOSED)
        try:
            if self._accumulator.incomplete:
                self._start()
            if await self._session.abort_on_close(self._outcomes, self._deadline(timeout)):
                await self.flush(timeout)
        except (TimeoutError, KafkaError) as error:
            logger.warning("closed before everything was sent: %s", error)
        finally:
            self._stop()
            await self._cluster.close()

    async def __aenter__(self) -> "Producer":
        self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # A cancelled or interrupted caller wants to go now, not when a broker that is down has had all its time.
        is_interrupted = kind is not None and not issubclass(kind, Exception)
        await self.close(INTERRUPTED_SECONDS if is_interrupted else None)

    def forked(self, reason: str) -> None:
        """In the process that a fork made: nothing will ever come of what is under way, nor of anything new.

        No lock is taken, since the threads that had one do not exist here.
        """
        self._refuse(reason)
        for batch in self._accumulator.incomplete:
            batch.orphan(IllegalState(reason))

    def metrics(self) -> dict[str, float]:
        """Plain numbers, named as Kafka's producer metrics are."""
        return {
            **self._outcomes.metrics(),
            "buffer-total-bytes": self._accumulator.memory,
            "buffer-available-bytes": self._accumulator.free,
            "requests-in-flight": self._sender.in_flight,
        }

    # Inside

    def _new_session(self) -> Session:
        if self.options["transactional.id"] is not None:
            return TransactionalSession(self._cluster, self.options, self._accumulator, self._woken)
        if self.options["enable.idempotence"]:
            return IdempotentSession(self._cluster, self._of_no_use, self._woken)
        return PlainSession()

    @property
    def _transactions(self) -> TransactionalSession:
        if not isinstance(self._session, TransactionalSession):
            raise IllegalState("transactions need a transactional.id: give the producer one, different from all others")
        self._check_open()
        return self._session

    def _deadline(self, timeout: float | None) -> Deadline:
        if timeout is None:
            return Deadline(self._clock, self._max_block_ms, is_default="max.block.ms" not in self.options.given)
        return Deadline(self._clock, timeout * 1_000)

    async def _topic(self, name: str, partition: int | None, deadline: Deadline) -> TopicQueues:
        """The queues of a topic, once it is known; and known to have the partition, which may be new."""
        self._start()
        queues = self._routes.topics.get(name)
        if queues is None:
            queues = self._routes.add(await self._cluster.topic(name, deadline))
        if partition is not None and not 0 <= partition < queues.count:
            await self._cluster.persist(
                self._cluster.refresh, deadline, f"topic {name} was not looked up again", setting="max.block.ms"
            )
            if not 0 <= partition < queues.count:
                raise ValueError(f"topic {name!r} has no partition {partition}, only 0 to {queues.count - 1}")
        return queues

    async def _room_after(self, releases: int, deadline: Deadline) -> None:
        """Wait until a batch is done and gives its memory back; not if that happened since `releases` was read."""
        self._start()
        self._woken()
        try:
            async with asyncio.timeout(min(deadline.remaining_ms() / 1_000, 1e9)):
                while self._accumulator.releases == releases and self._refusal is None:
                    self._room.clear()
                    await self._room.wait()
        except TimeoutError as error:
            raise BufferExhausted(self._no_room()) from error

    def _no_room(self) -> str:
        if self._wait_for_room_ms is not None:
            return f"no room for more records, and {WAIT_FOR_ROOM}={self._wait_for_room_ms} is over: it was dropped"
        return (
            f"buffer.memory ({self._accumulator.memory} bytes) stayed full for max.block.ms "
            f"({self._max_block_ms}): records are sent faster than the brokers take them"
        )

    def _start(self) -> None:
        self._cluster.own_loop()
        self._cluster.start()
        self._session.start()

    def _check_open(self) -> None:
        if self._refusal is not None:
            raise IllegalState(self._refusal)

    def _refuse(self, reason: str) -> None:
        """Take no records any more."""
        self._refusal = reason
        self._close_fronts()

    def _loop_ended(self) -> None:
        """The user ended the loop and did not close the producer before."""
        if self._refusal is not None:
            return
        self._refuse(CLOSED)
        left = sum(batch.count for batch in self._accumulator.shut(CLOSED))
        if left:
            logger.warning(
                "the event loop ended before %d record(s) were sent; use `async with`, or await close()", left
            )
        self._stop()

    def _stop(self) -> None:
        self._sender.close()
        self._session.stop()
        self._outcomes.gives_up = True
        for batch in self._accumulator.flush():
            self._outcomes.give_up(batch, IllegalState("the producer was closed before this record was sent"))
        self._intake.close()
        self._room.set()

    def _saw(self, view: Any) -> None:
        idle = self._routes.forget_idle()
        if idle:
            self._cluster.forget(idle)
        self._routes.see(view)
        self._woken()

    def _of_no_use(self, error: KafkaError) -> None:
        """No id is to be had: nothing can be sent, now or later."""
        self._close_fronts()
        for batch in self._accumulator.flush():
            self._outcomes.give_up(batch, error)

    def _lost_a_batch(self, error: KafkaError) -> None:
        self._session.failed(error, self._outcomes)

    def _woken(self) -> None:
        """There is something to send, or to wait for; from any thread."""
        self._wake(self._pump)

    def _wake_loop(self, pump: Callable[[], None]) -> None:
        loop = self._cluster.own_loop()
        if not self._is_pump_due:
            self._is_pump_due = True
            loop.call_soon(pump)

    def _pump(self) -> None:
        self._is_pump_due = False
        self._sender.pump()


def _no_handle(*_: object) -> Handle | None:
    return None
