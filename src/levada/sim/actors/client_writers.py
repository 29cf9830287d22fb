"""Processes that write with our producer: record by record and in bulk, and in transactions."""

import asyncio
import random
from functools import partial
from typing import Any

from levada.client.errors import BufferExhausted, KafkaError, TimedOut
from levada.client.producer import Producer
from levada.client.types import RecordMetadata
from levada.sim.actors.client_process import BOOTSTRAP, NETWORK_OPTIONS, ClientProcess
from levada.sim.checkers import CheckFailed
from levada.sim.checkers.send_history import SLACK_SECONDS, SendHistory, Sent, SentTransaction
from levada.world.world import World

PLAIN, TRANSACTIONAL = "plain", "ledger"
"""Topics. Their names are sent, and so part of the trace of every seed."""
PARTITIONS = {PLAIN: 3, TRANSACTIONAL: 2}
DELIVERY_SECONDS = 3.0
BLOCK_SECONDS = 2.0
EARLIEST_SECONDS = 0.3
SIZES = (0, 0, 20, 300)


def producer_options(chance: random.Random) -> dict[str, Any]:
    """Small batches, little memory, and everything that may be between them and the broker."""
    return {
        **NETWORK_OPTIONS,
        "delivery.timeout.ms": int(DELIVERY_SECONDS * 1_000),
        "max.block.ms": int(BLOCK_SECONDS * 1_000),
        "linger.ms": chance.choice((0, 5, 50)),
        "batch.size": chance.choice((0, 300, 2_000)),
        "buffer.memory": chance.choice((4_000, 30_000)),
        "max.in.flight.requests.per.connection": chance.choice((1, 2, 5)),
        "compression.type": chance.choice(("none", "none", "gzip")),
    }


class Writer(ClientProcess):
    """Something that sends, and knows what became of all it sent."""

    def __init__(self, name: str, world: World, chance: random.Random, sends: SendHistory) -> None:
        super().__init__(name, world, chance)
        self.sends = sends
        self._count = 0

    def die(self) -> None:
        super().die()
        self.sends.die(self.name)

    def new_value(self) -> bytes:
        self._count += 1
        return f"{self.name}-{self._count} ".encode() + bytes(self.chance.choice(SIZES))

    async def send(
        self,
        producer: Producer,
        topic: str,
        partition: int | None,
        transaction: SentTransaction | None = None,
        value: bytes | None = None,
    ) -> Sent:
        """One record; raises what the producer raises, and then it must not be anywhere."""
        value = value or self.new_value()
        one = self.sends.send(value, self.name, len(self.sends.sent), transaction)
        key = None if partition is not None else self.chance.choice((None, b"a", b"b"))
        began_s = self.now_s
        try:
            await producer.send(topic, value, key=key, partition=partition, on_delivery=partial(self._hear, one))
        except KafkaError:
            self.sends.refuse(one)
            if transaction is not None:
                transaction.records.remove(one)
            self._check_block(began_s)
            raise
        self._check_block(began_s)
        self.sends.accept(one, self.now_s + DELIVERY_SECONDS + SLACK_SECONDS)
        self.before_answer()
        return one

    def _hear(self, one: Sent, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        try:
            self._resolve(one, metadata, error)
        except CheckFailed as failure:
            # The producer would only log it.
            self.sends.failure = failure

    def _resolve(self, one: Sent, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        place = None if metadata is None else ((metadata.topic, metadata.partition), metadata.offset)
        if metadata is not None and metadata.offset < 0:
            # The broker has more batches of us behind this one than it remembers.
            place = None
        self.sends.resolve(one, place, self.now_s, is_acknowledged=error is None)

    def _check_block(self, began_s: float) -> None:
        if self.now_s - began_s > BLOCK_SECONDS + SLACK_SECONDS:
            raise CheckFailed(f"{self.name}: a send took {self.now_s - began_s:.3f} s")


class PlainWriter(Writer):
    """Idempotent: now one record, now many, sometimes waiting for what became of them."""

    _is_closing = False

    async def live(self) -> None:
        producer = Producer(BOOTSTRAP, world=self.world, **producer_options(self.chance))
        bulks: list[asyncio.Task[None]] = []
        while not self.must_stop:
            await self.stand_still()
            try:
                if self.chance.random() < 0.25:
                    await self._send_many(producer, bulks)
                else:
                    await self.send(producer, PLAIN, self._partition())
                if self.chance.random() < 0.03:
                    await self._flush(producer)
            except (BufferExhausted, TimedOut):
                # As the configuration says it; what was not accepted is not there.
                pass
            await asyncio.sleep(self.chance.random() * self.chance.choice((0.0, 0.3, 1.5)))
        self._is_closing = True
        # At once, or too early for some, or long enough for everything to have an outcome of its own.
        await self.close(producer, self.chance.choice((0.0, 0.5, DELIVERY_SECONDS + 1.0)))
        for bulk in bulks:
            await bulk
        self.sends.check_none_pending(self.name)

    def _resolve(self, one: Sent, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        if error is not None and not self._is_closing:
            # Nothing but time may cost a record; that of its batch began a little earlier.
            is_early = self.now_s < one.deadline_s - EARLIEST_SECONDS
            if is_early or not isinstance(error, TimedOut):
                raise CheckFailed(f"{one.value!r} is given up at {self.now_s:.3f} s: {error!r}")
        super()._resolve(one, metadata, error)

    async def _flush(self, producer: Producer) -> None:
        before = [one for one in self.sends.sent.values() if one.writer == self.name]
        began_s = self.now_s
        await producer.flush()
        if self.now_s - began_s > DELIVERY_SECONDS + SLACK_SECONDS:
            raise CheckFailed(f"{self.name}: flush took {self.now_s - began_s:.3f} s")
        # A sender that waits for many records has to be woken first.
        await asyncio.sleep(0.001)
        late = [one.value for one in before if not one.is_over]
        if late:
            raise CheckFailed(f"{self.name} has flushed, and {late[:5]} have no outcome")

    async def _send_many(self, producer: Producer, bulks: list[asyncio.Task[None]]) -> None:
        values = [self.new_value() for _ in range(self.chance.randint(1, 12))]
        many = [self.sends.send(value, self.name, len(self.sends.sent), None) for value in values]
        keys = [self.chance.choice((None, b"x", b"yy")) for _ in values] if self.chance.random() < 0.5 else None
        partition = None if keys is not None else self._partition()
        try:
            handle = await producer.send_many(PLAIN, values, keys=keys, partition=partition)
        except KafkaError:
            # Some of them are on their way, and no answer will say what becomes of them.
            for one in many:
                one.is_over = True
            raise
        for one in many:
            self.sends.accept(one, self.now_s + DELIVERY_SECONDS + SLACK_SECONDS)
        self.before_answer()
        bulks.append(asyncio.create_task(self._await_many(handle, many)))

    async def _await_many(self, handle: Any, many: list[Sent]) -> None:
        try:
            count = await handle
        except KafkaError:
            count = None
        if count is not None and count != len(many):
            raise CheckFailed(f"{self.name}: {count} of {len(many)} records are acknowledged together")
        for one in many:
            self.sends.resolve(one, None, self.now_s, is_acknowledged=count is not None)

    def _partition(self) -> int | None:
        chosen = self.chance.randrange(-1, PARTITIONS[PLAIN])
        return None if chosen < 0 else chosen
