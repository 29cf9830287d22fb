"""What a producer is to the brokers beyond its records: plain, idempotent, or the owner of transactions."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from levada.client.cluster import Cluster, Deadline, background
from levada.client.errors import KafkaError, TimedOut, TransactionAborted, error_for
from levada.client.options import Options
from levada.client.producer.accumulator import Accumulator
from levada.client.producer.batch import Batch
from levada.client.producer.group_commit import TransactionTicket, commit_together
from levada.client.producer.handle import wait_in_loop
from levada.client.producer.identity import ProducerIdentity
from levada.client.producer.outcome import BatchOutcomes
from levada.client.producer.partition_queue import PartitionQueue
from levada.client.producer.transactions import TransactionPhase, Transactions
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from levada.records.batch import NO_PRODUCER_ID

NO_TIMEOUT_MS = 2**31 - 1


class Session(Protocol):
    @property
    def transactional_id(self) -> str | None: ...

    @property
    def identity(self) -> ProducerIdentity | None:
        """None: batches have no sequences."""

    @property
    def adds_implicitly(self) -> bool:
        """Whether writing to a partition makes it a part of the transaction."""

    def lets_through(self, queue: PartitionQueue) -> bool:
        """Whether this queue may send now."""

    def check_send(self) -> None:
        """Raise if records cannot be sent now."""

    def start(self) -> None: ...

    def failed(self, error: KafkaError, outcomes: BatchOutcomes) -> None:
        """A batch has failed for good."""

    async def abort_on_close(self, outcomes: BatchOutcomes, deadline: Deadline) -> bool:
        """End what is open; whether the records that are left are still worth sending."""

    def stop(self) -> None: ...


class PlainSession:
    """Without idempotence."""

    transactional_id: None = None
    identity: ProducerIdentity | None = None
    adds_implicitly = True

    def lets_through(self, queue: PartitionQueue) -> bool:
        return True

    def check_send(self) -> None:
        pass

    def start(self) -> None:
        pass

    def failed(self, error: KafkaError, outcomes: BatchOutcomes) -> None:
        pass

    async def abort_on_close(self, outcomes: BatchOutcomes, deadline: Deadline) -> bool:
        return True

    def stop(self) -> None:
        pass


class IdempotentSession(PlainSession):
    """Asks for a producer id when there is none, and lets nothing through before."""

    def __init__(self, cluster: Cluster, give_up: Callable[[KafkaError], None], pump: Callable[[], None]) -> None:
        self.identity: ProducerIdentity = ProducerIdentity()
        self._cluster = cluster
        self._give_up = give_up
        self._pump = pump
        self._initialization: asyncio.Task[None] | None = None
        self._error: KafkaError | None = None

    def check_send(self) -> None:
        if self._error is not None:
            raise self._error

    def lets_through(self, queue: PartitionQueue) -> bool:
        if self.identity.is_known:
            return True
        self.start()
        return False

    def start(self) -> None:
        if not self.identity.is_known and self._initialization is None:
            self._initialization = background(self._initialize())

    def stop(self) -> None:
        if self._initialization is not None:
            self._initialization.cancel()

    async def _initialize(self) -> None:
        try:
            forever = Deadline(self._cluster.world.clock, None)
            await self._cluster.persist(self._init_producer_id, forever, "no producer id was given")
        except KafkaError as error:
            self._error = error
            self._give_up(error)
        finally:
            self._initialization = None
        self._pump()

    async def _init_producer_id(self) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=NO_TIMEOUT_MS)
        response: InitProducerIdResponse = await self._cluster.call_any(request)
        if response.error_code != ErrorCode.NONE:
            raise error_for(response.error_code, context="no producer id was given")
        self.identity.become(response.producer_id, response.producer_epoch)


class TransactionalSession(Transactions):
    """Transactions, and what ending one means for the records of this producer."""

    def __init__(self, cluster: Cluster, options: Options, accumulator: Accumulator, pump: Callable[[], None]) -> None:
        self.identity = ProducerIdentity()
        super().__init__(cluster, options, self.identity, pump)
        self._accumulator = accumulator

    @property
    def is_fenced(self) -> bool:
        return self.state is TransactionPhase.FENCED

    @property
    def must_abort(self) -> bool:
        return self.state is TransactionPhase.MUST_ABORT

    def check_send(self) -> None:
        self.check("send")

    def start(self) -> None:
        pass

    def failed(self, error: KafkaError, outcomes: BatchOutcomes) -> None:
        """What was not sent yet fails with the batch that was lost: it could not be committed any more."""
        was_open = self.state in (TransactionPhase.IN_TRANSACTION, TransactionPhase.COMMITTING)
        self.lost(error)
        if was_open:
            self._drop_unsent(outcomes, error)

    async def commit(self, flush: Callable[[], Awaitable[None]], deadline: Deadline) -> None:
        self.check("commit_transaction")
        await self._flushed(flush, deadline)
        await self.end(committed=True, deadline=deadline)

    async def abort(self, outcomes: BatchOutcomes, deadline: Deadline) -> None:
        self.check("abort_transaction")
        self.state = TransactionPhase.ABORTING
        outcomes.gives_up = True
        try:
            on_wire = self._drop_unsent(outcomes, TransactionAborted("the transaction was aborted"))
            await _within(wait_in_loop(on_wire), deadline)
            await self.end(committed=False, deadline=deadline)
        finally:
            outcomes.gives_up = False

    async def hand_over(self, flush: Callable[[], Awaitable[None]], deadline: Deadline) -> TransactionTicket:
        self.check("commit_transaction")
        await self._flushed(flush, deadline)
        ticket = TransactionTicket(self.transactional_id, self.identity.producer_id, self.identity.producer_epoch)
        self.completed()
        self.state = TransactionPhase.UNINITIALIZED
        # The transaction's new owner may end it, and other producers may have the id before this one has it again.
        self.identity.become(NO_PRODUCER_ID, -1)
        return ticket

    async def commit_group(
        self, tickets: list[TransactionTicket], flush: Callable[[], Awaitable[None]], deadline: Deadline
    ) -> None:
        self.check("commit_transaction")
        await self._flushed(flush, deadline)
        own = TransactionTicket(self.transactional_id, self.identity.producer_id, self.identity.producer_epoch)
        # The coordinator does not know of a transaction in which nothing was sent.
        members = [own, *tickets] if self.has_begun else tickets
        self.state = TransactionPhase.COMMITTING
        if members:
            results = await self.guarded(
                lambda: commit_together(self._cluster, members, self.transactional_id),
                deadline,
                "the group was not committed",
            )
            for result in results:
                if result.transactional_id == self.transactional_id:
                    self.identity.become(result.producer_id, result.producer_epoch)
        self.completed()

    async def abort_on_close(self, outcomes: BatchOutcomes, deadline: Deadline) -> bool:
        if self.state in (TransactionPhase.IN_TRANSACTION, TransactionPhase.MUST_ABORT, TransactionPhase.ABORTING):
            await self.abort(outcomes, deadline)
        return False

    async def _flushed(self, flush: Callable[[], Awaitable[None]], deadline: Deadline) -> None:
        await _within(flush(), deadline)
        if self.error is not None:
            raise self.error

    def _drop_unsent(self, outcomes: BatchOutcomes, error: KafkaError) -> list[Batch]:
        """Fail all that is not on the wire; what is."""
        on_wire = []
        for batch in self._accumulator.flush():
            if batch.is_on_wire:
                on_wire.append(batch)
            else:
                outcomes.give_up(batch, error)
        return on_wire


async def _within(work: Awaitable[None], deadline: Deadline) -> None:
    try:
        async with asyncio.timeout(min(deadline.remaining_ms() / 1_000, 1e9)):
            await work
    except TimeoutError as error:
        raise TimedOut(f"not everything was sent within {deadline.timeout_ms:.0f} ms; call it again") from error
