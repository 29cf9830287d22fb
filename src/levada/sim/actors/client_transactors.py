"""Processes that write in transactions, alone or with the offsets of what they read."""

import asyncio
import random
from typing import Any

from levada.client.errors import KafkaError, TimedOut
from levada.client.producer import Producer
from levada.sim.actors.client_process import BOOTSTRAP
from levada.sim.actors.client_writers import PARTITIONS, TRANSACTIONAL, Writer, producer_options
from levada.sim.checkers import CheckFailed
from levada.sim.checkers.send_history import SendHistory, SentTransaction
from levada.world.world import World

TRANSACTION_SECONDS = 5.0
RETRY_SECONDS = 0.01
GIVE_UP_SECONDS = 60.0
"""A call that is repeated for so long, though the storm is shorter, will never succeed."""


class ProducerUnusable(Exception):
    """This producer is of no more use."""


class TransactionalWriter(Writer):
    """A process with a transactional id, and what may be done when a step fails."""

    def __init__(
        self, name: str, world: World, chance: random.Random, sends: SendHistory, transactional_id: str
    ) -> None:
        super().__init__(name, world, chance, sends)
        self.transactional_id = transactional_id
        self.has_rival = False
        """Another process may have taken the id from it."""
        self.is_ready = False
        """It has the id, or had it."""
        self._begun_s = 0.0
        self._transactions = 0

    def make_producer(self) -> Producer:
        return Producer(
            BOOTSTRAP,
            world=self.world,
            **{
                **producer_options(self.chance),
                "transactional.id": self.transactional_id,
                "transaction.timeout.ms": int(TRANSACTION_SECONDS * 1_000),
            },
        )

    async def init(self, producer: Producer) -> None:
        await self._insist(producer.init_transactions)
        self.is_ready = True

    async def begin(self, producer: Producer) -> SentTransaction:
        await producer.begin_transaction()
        self._transactions += 1
        self._begun_s = self.now_s
        return self.sends.begin(f"{self.name}/{self._transactions}")

    async def commit(self, producer: Producer, transaction: SentTransaction) -> bool:
        """Whether it is committed; if not, it is aborted."""
        transaction.ask()
        self.before_answer()
        try:
            await self._insist(producer.commit_transaction)
        except KafkaError:
            await self.abort(producer, transaction)
            return False
        transaction.commit()
        return True

    async def abort(self, producer: Producer, transaction: SentTransaction) -> None:
        await self._insist(producer.abort_transaction)
        transaction.abort()

    def check_usable(self, error: KafkaError) -> None:
        """ProducerUnusable, if the error says that the producer is; and then there must be a reason."""
        if not error.fatal:
            return
        if not self.has_rival and self.now_s - self._begun_s < TRANSACTION_SECONDS:
            raise CheckFailed(f"{self.name} is out without a reason: {error}") from error
        raise ProducerUnusable from error

    async def _insist(self, call: Any) -> None:
        """Until it is done; raises what demands an abort, and ProducerUnusable."""
        give_up_s = self.now_s + GIVE_UP_SECONDS
        while True:
            try:
                await call()
            except KafkaError as error:
                self.check_usable(error)
                if error.needs_abort or not isinstance(error, TimedOut):
                    raise
                if self.now_s > give_up_s:
                    raise CheckFailed(f"{self.name}: {call.__name__} cannot be brought to an end: {error}") from error
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return


class Transactor(TransactionalWriter):
    """Writes a few records to some partitions, and commits or aborts them."""

    async def live(self) -> None:
        producer = self.make_producer()
        try:
            await self.init(producer)
            while not self.must_stop:
                await self.stand_still()
                await self._transact(producer)
                await asyncio.sleep(self.chance.random())
        except ProducerUnusable:
            pass
        await self.close(producer)
        self.sends.check_none_pending(self.name)

    async def _transact(self, producer: Producer) -> None:
        transaction = await self.begin(producer)
        try:
            for _ in range(self.chance.randint(1, 6)):
                await self.send(producer, TRANSACTIONAL, self.chance.randrange(PARTITIONS[TRANSACTIONAL]), transaction)
                await asyncio.sleep(self.chance.random() * self.chance.choice((0.0, 0.05)))
        except KafkaError as error:
            self.check_usable(error)
            await self.abort(producer, transaction)
            return
        if self.chance.random() < 0.3:
            await self.abort(producer, transaction)
        else:
            await self.commit(producer, transaction)
