"""Processes that read with our consumer as members of a group, and such that make transactions of what they read."""

import asyncio
import random
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from levada.client.consumer.consumer import Consumer
from levada.client.errors import CommitFailed, KafkaError, RebalanceInProgress, TimedOut
from levada.client.types import OffsetAndMetadata, TopicPartition
from levada.model.error_codes import ErrorCode
from levada.sim.actors.client_process import BOOTSTRAP, NETWORK_OPTIONS, ClientProcess
from levada.sim.actors.client_transactors import ProducerUnusable, TransactionalWriter
from levada.sim.actors.client_writers import PARTITIONS, PLAIN, TRANSACTIONAL
from levada.sim.checkers import CheckFailed
from levada.sim.checkers.read_history import ReadHistory
from levada.sim.checkers.send_history import SendHistory
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
class ClientGroup:
    """Whose members share the partitions of some topics."""

    history: ReadHistory
    topics: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)


class RecordedConsumer:
    """One consumer and its listener: what it is given and what it reads goes into the group's history."""

    def __init__(
        self, process: ClientProcess, group: ClientGroup, sends: SendHistory, instance_id: str | None = None
    ) -> None:
        chance = process.chance
        self.is_automatic = chance.random() < 0.3
        self._process = process
        self._group = group
        self._history = group.history
        self._sends = sends
        self.commits_when_revoked = chance.random() < 0.5
        self.consumer = Consumer(
            BOOTSTRAP,
            world=process.world,
            **{
                **NETWORK_OPTIONS,
                "group.id": group.history.group_id,
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
        draw, topics = self._process.chance.random(), self._group.topics
        if draw < 0.6:
            self.consumer.subscribe(list(topics), listener=self)
        elif draw < 0.8 or self._group.options.get("group.protocol") != "consumer":
            self.consumer.subscribe(re.compile("|".join(topics)), listener=self)
        else:
            self.consumer.subscribe(pattern="|".join(topics), listener=self)

    async def poll(self, seconds: float) -> list[Any]:
        """Within its time, but for what the listener takes."""
        began_s, self._process.listening_s = self._process.now_s, 0.0
        records = await self.consumer.poll(seconds)
        took_s = self._process.now_s - began_s - self._process.listening_s
        if took_s > seconds + POLL_SLACK_SECONDS:
            raise CheckFailed(f"{self._process.name}: poll({seconds}) took {took_s:.3f} s")
        for record in records:
            partition = (record.topic, record.partition)
            self._history.read(self._process.name, partition, record.offset)
            self._sends.see(bytes(record.value or b""), (partition, record.offset))
        return records

    async def commit(self) -> None:
        """Commit what was read; a consumer that is not a member any more is told so."""
        sent_s = self._process.now_s
        try:
            await self.consumer.commit()
        except (CommitFailed, RebalanceInProgress, TimedOut):
            pass
        else:
            self._history.commit(self._process.name, sent_s)
        if self._process.now_s - sent_s > API_SECONDS + POLL_SLACK_SECONDS:
            raise CheckFailed(f"{self._process.name}: a commit took {self._process.now_s - sent_s:.3f} s")

    # The listener

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self._history.take(self._process.name, partition, self._process.now_s)

    async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        began_s = self._process.now_s
        if self.commits_when_revoked:
            await self.commit()
        for partition in partitions:
            self._history.give_up(self._process.name, partition)
        self._process.listening_s += self._process.now_s - began_s

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self._history.lose(self._process.name, partitions)


class ClientMember(ClientProcess):
    """Reads, and commits by hand or has it done."""

    def __init__(
        self,
        name: str,
        world: World,
        chance: random.Random,
        sends: SendHistory,
        group: ClientGroup,
        instance_id: str | None = None,
    ) -> None:
        super().__init__(name, world, chance)
        self._sends = sends
        self._group = group
        self._instance_id = instance_id

    def die(self) -> None:
        super().die()
        self._group.history.die(self.name)

    async def live(self) -> None:
        reader = RecordedConsumer(self, self._group, self._sends, self._instance_id)
        try:
            while not self.must_stop:
                await self._read(reader)
        except KafkaError as error:
            # The process before, which was killed, is still a member; it has to be missed first.
            if self._instance_id is None or error.code != ErrorCode.UNRELEASED_INSTANCE_ID:
                raise
        await self.close(reader.consumer)
        self._group.history.die(self.name)

    async def _read(self, reader: RecordedConsumer) -> None:
        await reader.poll(self.chance.choice((0.0, 0.1, 0.5)))
        await self.stand_still()
        await asyncio.sleep(self.chance.random() * self.chance.choice((0.0, 0.05, 0.3)))
        if reader.is_automatic:
            return
        draw = self.chance.random()
        if draw < 0.2:
            await reader.commit()
        elif draw < 0.3:
            reader.consumer.commit_async()


class Processor(TransactionalWriter):
    """Reads records and writes one for each, in a transaction with the offsets of what it read."""

    def __init__(
        self,
        name: str,
        world: World,
        chance: random.Random,
        sends: SendHistory,
        group: ClientGroup,
        transactional_id: str,
    ) -> None:
        super().__init__(name, world, chance, sends, transactional_id)
        self._group = group

    def die(self) -> None:
        super().die()
        self._group.history.die(self.name)

    async def live(self) -> None:
        producer = self.make_producer()
        reader = RecordedConsumer(self, self._group, self.sends)
        reader.commits_when_revoked = False
        consumer = reader.consumer
        try:
            await self.init(producer)
            while not self.must_stop:
                records = await reader.poll(0.2)
                # The worst moment: another member may have these records by now.
                await self.stand_still()
                if records and not await self._process(producer, consumer, records):
                    self._rewind(consumer, records)
        except ProducerUnusable:
            pass
        await self.close(producer)
        await self.close(consumer)
        self._group.history.die(self.name)
        self.sends.check_none_pending(self.name)

    async def _process(self, producer: Any, consumer: Consumer, records: list[Any]) -> bool:
        transaction = await self.begin(producer)
        offsets = {TopicPartition(one.topic, one.partition): OffsetAndMetadata(one.offset + 1) for one in records}
        try:
            for one in records:
                value = MADE + f"{one.partition}|{one.offset}|{transaction.name}".encode()
                await self.send(producer, TRANSACTIONAL, one.partition % PARTITIONS[TRANSACTIONAL], transaction, value)
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
            self._group.history.rewind(self.name, partition)


def all_groups(chance: random.Random) -> list[ClientGroup]:
    """One of each kind; the last is that of the processors."""
    committed = {"isolation.level": "read_committed"}
    made_of = {**chance.choice((COOPERATIVE, CONSUMER)), **committed, "enable.auto.commit": False}
    return [
        ClientGroup(ReadHistory("eager"), (PLAIN,), EAGER),
        ClientGroup(ReadHistory("cooperative"), (PLAIN, TRANSACTIONAL), {**COOPERATIVE, **committed}),
        ClientGroup(ReadHistory("next"), (PLAIN, TRANSACTIONAL), {**CONSUMER, **committed}),
        ClientGroup(ReadHistory("processors"), (PLAIN,), made_of),
    ]
