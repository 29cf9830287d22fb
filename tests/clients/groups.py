"""Members of groups that run by themselves, and a ledger of who owns what: for tests of our consumer with others."""

import asyncio
import itertools
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka import ConsumerRebalanceListener as AiokafkaListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AiokafkaRange
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as AiokafkaRoundRobin
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as AiokafkaSticky
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import Consumer as Confluent
from confluent_kafka import KafkaException
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]
from kafka import KafkaConsumer
from kafka.consumer.subscription_state import ConsumerRebalanceListener as KafkaPythonListener
from kafka.coordinator.assignors.cooperative_sticky import (
    CooperativeStickyAssignor as KafkaPythonCooperativeSticky,
)
from kafka.coordinator.assignors.range import RangePartitionAssignor as KafkaPythonRange
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as KafkaPythonRoundRobin
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as KafkaPythonSticky
from kafka.errors import KafkaError as KafkaPythonError

from levada.client.consumer.consumer import Consumer
from levada.client.errors import CommitFailed, RebalanceInProgress
from levada.client.types import TopicPartition

WAIT_SECONDS = 25.0
POLL_SECONDS = 0.1
LOOK_SECONDS = 0.01
HEARTBEAT_MS = 150

_numbers = itertools.count(1)


def unique(stem: str) -> str:
    """A name of a topic or group that no other case has."""
    return f"{stem}-{next(_numbers)}"


def create_topic(bootstrap: str, topic: str, partitions: int, records_each: int = 0) -> list[bytes]:
    """A topic with some records in every partition; their values."""
    admin = AdminClient(_librdkafka(bootstrap))
    (created,) = admin.create_topics([NewTopic(topic, partitions)]).values()
    created.result(WAIT_SECONDS)
    return produce(bootstrap, topic, partitions, records_each)


def add_partitions(bootstrap: str, topic: str, total: int) -> None:
    admin = AdminClient(_librdkafka(bootstrap))
    (done,) = admin.create_partitions([NewPartitions(topic, total)]).values()
    done.result(WAIT_SECONDS)


def produce(bootstrap: str, topic: str, partitions: int, records_each: int, label: str = "") -> list[bytes]:
    producer = ConfluentProducer(_librdkafka(bootstrap))
    values = []
    for partition, number in itertools.product(range(partitions), range(records_each)):
        values.append(f"{label}{partition}-{number}".encode())
        producer.produce(topic, values[-1], partition=partition)
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(WAIT_SECONDS) == 0
    return values


async def until(
    is_true: Callable[[], bool],
    *tasks: "asyncio.Task[Any]",
    seconds: float = WAIT_SECONDS,
    found: Callable[[], object] = lambda: "",
) -> None:
    """Wait for a condition; what one of the tasks fails with comes first, and `found` tells what there is instead."""
    deadline = time.monotonic() + seconds
    while not is_true():
        for task in tasks:
            if task.done():
                task.result()
        assert time.monotonic() < deadline, f"waited for nothing: {found()}"
        await asyncio.sleep(LOOK_SECONDS)


class Ledger:
    """Who owns which partition; two owners at once are written down."""

    def __init__(self) -> None:
        self.owners: dict[tuple[str, int], str] = {}
        self.conflicts: list[str] = []
        self._lock = threading.Lock()

    def claim(self, who: str, partitions: Iterable[tuple[str, int]]) -> None:
        with self._lock:
            for partition in partitions:
                owner = self.owners.get(partition)
                if owner not in (None, who):
                    self.conflicts.append(f"{who} got {partition}, which {owner} still has")
                self.owners[partition] = who

    def release(self, who: str, partitions: Iterable[tuple[str, int]]) -> None:
        with self._lock:
            for partition in partitions:
                if self.owners.get(partition) == who:
                    del self.owners[partition]

    def owned(self, who: str) -> int:
        with self._lock:
            return sum(owner == who for owner in self.owners.values())


class Member(ABC):
    """Reads and commits by itself from `start` until `stop`."""

    kind = ""

    def __init__(self, bootstrap: str, topic: str, group: str, ledger: Ledger, strategy: str) -> None:
        self.bootstrap, self.topic, self.group, self.strategy = bootstrap, topic, group, strategy
        self.name = unique(self.kind)
        self.ledger = ledger
        self.values: list[bytes] = []

    @property
    def owned(self) -> int:
        return self.ledger.owned(self.name)

    def claim(self, partitions: Iterable[Any]) -> None:
        self.ledger.claim(self.name, [(one.topic, one.partition) for one in partitions])

    def release(self, partitions: Iterable[Any]) -> None:
        self.ledger.release(self.name, [(one.topic, one.partition) for one in partitions])

    @abstractmethod
    async def start(self) -> None: ...

    @abstractmethod
    async def stop(self) -> None:
        """Leave the group."""


class OurMember(Member):
    """Keeps all that its listener was told."""

    kind = "levada"

    def __init__(
        self, bootstrap: str, topic: str, group: str, ledger: Ledger, strategy: str = "range", **options: Any
    ) -> None:
        super().__init__(bootstrap, topic, group, ledger, strategy)
        self.told: list[tuple[str, list[int]]] = []
        settings: dict[str, Any] = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
        if options.get("group_protocol") != "consumer":
            settings |= {"heartbeat_interval_ms": HEARTBEAT_MS, "partition_assignment_strategy": strategy}
        self.consumer = Consumer(bootstrap, group_id=group, **(settings | options))
        self.consumer.subscribe([topic], listener=self)
        self._task: asyncio.Task[None] | None = None
        self._is_over = False

    @property
    def task(self) -> "asyncio.Task[None]":
        assert self._task is not None
        return self._task

    @property
    def partitions(self) -> set[int]:
        return {one.partition for one in self.consumer.assignment()}

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.told.append(("revoked", [one.partition for one in partitions]))
        self.release(partitions)

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.told.append(("assigned", [one.partition for one in partitions]))
        self.claim(partitions)

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.told.append(("lost", [one.partition for one in partitions]))
        self.release(partitions)

    async def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self, *, closes: bool = True) -> None:
        """Poll no more, and leave the group unless told otherwise."""
        self._is_over = True
        self.consumer.wakeup()
        if self._task is not None:
            await self._task
        if closes:
            await self.consumer.close()

    async def _run(self) -> None:
        while not self._is_over:
            records = await self.consumer.poll(POLL_SECONDS)
            self.values += [record.value or b"" for record in records]
            if records:
                try:
                    await self.consumer.commit()
                except (CommitFailed, RebalanceInProgress):
                    continue


class _InThread(Member):
    """Other clients block."""

    def __init__(self, bootstrap: str, topic: str, group: str, ledger: Ledger, strategy: str) -> None:
        super().__init__(bootstrap, topic, group, ledger, strategy)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self.run, daemon=True)

    @abstractmethod
    def run(self) -> None: ...

    async def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        self._is_over.set()
        await asyncio.to_thread(self._thread.join, WAIT_SECONDS)
        assert not self._thread.is_alive()


class ConfluentMember(_InThread):
    kind = "confluent-kafka"
    protocol: dict[str, Any] = {"heartbeat.interval.ms": HEARTBEAT_MS}

    def run(self) -> None:
        strategy = {"partition.assignment.strategy": self.strategy} if self.strategy else {}
        consumer = Confluent(
            {
                **_librdkafka(self.bootstrap),
                "group.id": self.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **strategy,
                **self.protocol,
            }
        )
        consumer.subscribe(
            [self.topic],
            on_assign=lambda _, partitions: self.claim(partitions),
            on_revoke=lambda _, partitions: self.release(partitions),
        )
        while not self._is_over.is_set():
            message = consumer.poll(POLL_SECONDS)
            if message is None or message.error() is not None:
                continue
            self.values.append(message.value() or b"")
            try:
                consumer.commit(asynchronous=False)
            except KafkaException:
                continue
        consumer.close()


class ConfluentNextMember(ConfluentMember):
    protocol = {"group.protocol": "consumer"}


class KafkaPythonMember(_InThread):
    kind = "kafka-python"
    assignors: dict[str, Any] = {
        "range": KafkaPythonRange,
        "roundrobin": KafkaPythonRoundRobin,
        "sticky": KafkaPythonSticky,
        "cooperative-sticky": KafkaPythonCooperativeSticky,
    }

    def run(self) -> None:
        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        member = self

        class Listener(KafkaPythonListener):  # type: ignore[misc]
            def on_partitions_revoked(self, revoked: Any) -> None:
                member.release(revoked)

            def on_partitions_assigned(self, assigned: Any) -> None:
                member.claim(assigned)

            def on_partitions_lost(self, lost: Any) -> None:
                member.release(lost)

        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=HEARTBEAT_MS,
            partition_assignment_strategy=[self.assignors[self.strategy]],
        )
        consumer.subscribe([self.topic], listener=Listener())
        while not self._is_over.is_set():
            batches = consumer.poll(timeout_ms=int(POLL_SECONDS * 1_000))
            self.values += [record.value for batch in batches.values() for record in batch]
            try:
                if batches:
                    consumer.commit()
            except KafkaPythonError:
                continue
        owned = consumer.assignment()
        consumer.close()
        self.release(owned)


class AiokafkaMember(_InThread):
    kind = "aiokafka"
    assignors = {"range": AiokafkaRange, "roundrobin": AiokafkaRoundRobin, "sticky": AiokafkaSticky}

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        member = self

        class Listener(AiokafkaListener):  # type: ignore[misc]
            def on_partitions_revoked(self, revoked: Any) -> None:
                member.release(revoked)

            def on_partitions_assigned(self, assigned: Any) -> None:
                member.claim(assigned)

        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=HEARTBEAT_MS,
            partition_assignment_strategy=(self.assignors[self.strategy],),
        )
        consumer.subscribe([self.topic], listener=Listener())
        await consumer.start()
        while not self._is_over.is_set():
            batches = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1_000))
            self.values += [record.value for batch in batches.values() for record in batch]
            try:
                if batches:
                    await consumer.commit()
            except AiokafkaError:
                continue
        owned = consumer.assignment()
        await consumer.stop()
        self.release(owned)


async def run_members(members: Iterable[Member], inside: Callable[[], Awaitable[None]]) -> None:
    """Start them, do something, and stop those that still run."""
    started: list[Member] = []
    try:
        for member in members:
            await member.start()
            started.append(member)
        await inside()
    finally:
        for member in started:
            await member.stop()


def _librdkafka(bootstrap: str) -> dict[str, Any]:
    return {"bootstrap.servers": bootstrap, "log_level": 0, "error_cb": lambda _: None}
