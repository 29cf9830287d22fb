"""Processes that read with our consumer as members of a group, and such that make transactions of what they read."""

import asyncio
import random
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from levada.client.consumer.consumer import Consumer
from levada.client.errors import CommitFailed, KafkaError, RebalanceInProgress, TimedOut
from levada.client.types import OffsetAndMetadata, TopicPartition
from levada.model.errors import ErrorCode
from levada.sim.checkers import CheckFailed
from levada.sim.client_books import ReadBook, SendBook
from levada.sim.client_lives import BOOTSTRAP, NETWORK_OPTIONS, Life
from levada.sim.client_transactors import Over, TransactionalWriter
from levada.sim.client_writers import LEDGER, PARTITIONS, PLAIN
from levada.world.world import World

API_SECONDS = 3.0
POLL_SLACK_SECONDS = 0.1
POLL_INTERVAL_SECONDS = 4.0
MADE = b"made|"

CLASSIC: dict[str, Any] = {"session.timeout.ms": 3_000, "heartbeat.interval.ms": 400}
EAGER = {**CLASSIC, "partition.assignment.strategy": ["range"]}
COOPERATIVE = {**CLASSIC, "partition.assignment.strategy": ["cooperative-sticky"]}
CONSUMER: dict[str, Any] = {"group.protocol": "consumer"}


@dataclass(slots=True)
class Group:
    """Whose members share the partitions of some topics."""

    book: ReadBook
    topics: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)


class Reading:
    """One consumer and its listener: what it is given and what it reads goes into the group's book."""

    def __init__(self, life: Life, group: Group, sends: SendBook, instance_id: str | None = None) -> None:
        chance = life.chance
        self.is_automatic = chance.random() < 0.3
        self._life = life
        self._group = group
        self._book = group.book
        self._sends = sends
        self.commits_when_revoked = chance.random() < 0.5
        self.consumer = Consumer(
            BOOTSTRAP,
            world=life.world,
            **{
                **NETWORK_OPTIONS,
                "group.id": group.book.group_id,
                "group.instance.id": instance_id,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": self.is_automatic,
                "auto.commit.interval.ms": 300,
                "default.api.timeout.ms": int(API_SECONDS * 1_000),
                "max.poll.interval.ms": int(POLL_INTERVAL_SECONDS * 1_000),
                "max.poll.records": chance.choice((5, 50)),
                "fetch.max.wait.ms": chance.choice((100, 500)),
                "max.partition.fetch.bytes": chance.choice((200, 10_000)),
                **group.options,
            },
        )
        self._subscribe()

    def _subscribe(self) -> None:
        """By names, or by an expression that this client or the coordinator matches; it comes to the same."""
        draw, topics = self._life.chance.random(), self._group.topics
        if draw < 0.6:
            self.consumer.subscribe(list(topics), listener=self)
        elif draw < 0.8 or self._group.options.get("group.protocol") != "consumer":
            self.consumer.subscribe(re.compile("|".join(topics)), listener=self)
        else:
            self.consumer.subscribe(pattern="|".join(topics), listener=self)

    async def poll(self, seconds: float) -> list[Any]:
        """Within its time, but for what the listener takes."""
        began_s, self._life.listening_s = self._life.now_s, 0.0
        records = await self.consumer.poll(seconds)
        took_s = self._life.now_s - began_s - self._life.listening_s
        if took_s > seconds + POLL_SLACK_SECONDS:
            raise CheckFailed(f"{self._life.name}: poll({seconds}) took {took_s:.3f} s")
        for record in records:
            partition = (record.topic, record.partition)
            self._book.read(self._life.name, partition, record.offset)
            self._sends.see(bytes(record.value or b""), (partition, record.offset))
        return records

    async def commit(self) -> None:
        """Commit what was read; who is not a member any more is told so."""
        sent_s = self._life.now_s
        try:
            await self.consumer.commit()
        except (CommitFailed, RebalanceInProgress, TimedOut):
            pass
        else:
            self._book.commit(self._life.name, sent_s)
        if self._life.now_s - sent_s > API_SECONDS + POLL_SLACK_SECONDS:
            raise CheckFailed(f"{self._life.name}: a commit took {self._life.now_s - sent_s:.3f} s")

    # The listener

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self._book.take(self._life.name, partition, self._life.now_s)

    async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        began_s = self._life.now_s
        if self.commits_when_revoked:
            await self.commit()
        for partition in partitions:
            self._book.give_up(self._life.name, partition)
        self._life.listening_s += self._life.now_s - began_s

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self._book.lose(self._life.name, partitions)


class Member(Life):
    """Reads, and commits by hand or has it done."""

    def __init__(
        self,
        name: str,
        world: World,
        chance: random.Random,
        sends: SendBook,
        group: Group,
        instance_id: str | None = None,
    ) -> None:
        super().__init__(name, world, chance)
        self._sends = sends
        self._group = group
        self._instance_id = instance_id

    def die(self) -> None:
        super().die()
        self._group.book.die(self.name)

    async def live(self) -> None:
        reading = Reading(self, self._group, self._sends, self._instance_id)
        try:
            while not self.must_stop:
                await self._read(reading)
        except KafkaError as error:
            # The process before, which was killed, is still a member; it has to be missed first.
            if self._instance_id is None or error.code != ErrorCode.UNRELEASED_INSTANCE_ID:
                raise
        await self.close(reading.consumer)
        self._group.book.die(self.name)

    async def _read(self, reading: Reading) -> None:
        await reading.poll(self.chance.choice((0.0, 0.1, 0.5)))
        await self.stand_still()
        await asyncio.sleep(self.chance.random() * self.chance.choice((0.0, 0.05, 0.3)))
        if reading.is_automatic:
            return
        draw = self.chance.random()
        if draw < 0.2:
            await reading.commit()
        elif draw < 0.3:
            reading.consumer.commit_async()


class Processor(TransactionalWriter):
    """Reads records and writes one for each, in a transaction with the offsets of what it read."""

    def __init__(
        self, name: str, world: World, chance: random.Random, sends: SendBook, group: Group, transactional_id: str
    ) -> None:
        super().__init__(name, world, chance, sends, transactional_id)
        self._group = group

    def die(self) -> None:
        super().die()
        self._group.book.die(self.name)

    async def live(self) -> None:
        producer = self.make_producer()
        reading = Reading(self, self._group, self.book)
        reading.commits_when_revoked = False
        consumer = reading.consumer
        try:
            await self.init(producer)
            while not self.must_stop:
                records = await reading.poll(0.2)
                # The worst moment: somebody else may have these records by now.
                await self.stand_still()
                if records and not await self._process(producer, consumer, records):
                    self._rewind(consumer, records)
        except Over:
            pass
        await self.close(producer)
        await self.close(consumer)
        self._group.book.die(self.name)
        self.book.check_none_pending(self.name)

    async def _process(self, producer: Any, consumer: Consumer, records: list[Any]) -> bool:
        transaction = await self.begin(producer)
        offsets = {TopicPartition(one.topic, one.partition): OffsetAndMetadata(one.offset + 1) for one in records}
        try:
            for one in records:
                value = MADE + f"{one.partition}|{one.offset}|{transaction.name}".encode()
                await self.send(producer, LEDGER, one.partition % PARTITIONS[LEDGER], transaction, value)
            await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        except KafkaError as error:
            self.check_usable(error)
            await self.abort(producer, transaction)
            return False
        if self.chance.random() < 0.1:
            await self.abort(producer, transaction)
            return False
        return await self.commit(producer, transaction)

    def _rewind(self, consumer: Consumer, records: list[Any]) -> None:
        """What was not committed is read once more."""
        firsts: dict[TopicPartition, int] = {}
        for one in records:
            firsts.setdefault(TopicPartition(one.topic, one.partition), one.offset)
        for partition, offset in firsts.items():
            consumer.seek(partition, offset)
            self._group.book.rewind(self.name, partition)


def all_groups(chance: random.Random) -> list[Group]:
    """One of each kind; the last is that of the processors."""
    committed = {"isolation.level": "read_committed"}
    made_of = {**chance.choice((COOPERATIVE, CONSUMER)), **committed, "enable.auto.commit": False}
    return [
        Group(ReadBook("eager"), (PLAIN,), EAGER),
        Group(ReadBook("cooperative"), (PLAIN, LEDGER), {**COOPERATIVE, **committed}),
        Group(ReadBook("next"), (PLAIN, LEDGER), {**CONSUMER, **committed}),
        Group(ReadBook("processors"), (PLAIN,), made_of),
    ]


Make = Callable[[str, World, random.Random], Life]
