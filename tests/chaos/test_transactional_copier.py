"""Copiers of three clients are killed, and the broker too: what they have copied is exactly what there was."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.brokers import BrokerProcess
from tests.chaos.copier import PARTITIONS, SOURCES
from tests.producers import ConfluentProducer

SOURCE = "source"
POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Size:
    records: int
    """Of each partition."""
    instances: int
    """Of each client."""
    kills: int
    """Of each client's instances."""
    broker_kills: int
    transaction_records: int
    wait_seconds: float
    """At most between two records that arrive."""


SHORT = Size(records=750, instances=2, kills=2, broker_kills=2, transaction_records=40, wait_seconds=60)
LONG = Size(records=50_000, instances=3, kills=25, broker_kills=15, transaction_records=400, wait_seconds=120)
SIZE = LONG if os.environ.get("LEVADA_SOAK") == "1" else SHORT


@dataclass
class Copier:
    """One transactional id, and the process that has it at the moment."""

    command: list[str]
    errors: Path
    process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        with self.errors.open("a") as log:
            self.process = subprocess.Popen(self.command, stderr=log)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def revive(self) -> None:
        """As a supervisor of such processes would; nothing arrives any more if it ends again and again."""
        if self.process is not None and self.process.poll() is not None:
            self.start()


@dataclass
class Copy:
    """What one client's instances have copied, as a reader of committed records sees it."""

    client: str
    copiers: list[Copier]
    arrived: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    kills: int = 0

    @property
    def topic(self) -> str:
        return f"copy-{self.client}"

    @property
    def progress(self) -> float:
        return sum(self.arrived) / (PARTITIONS * SIZE.records)

    def take(self, partition: int, value: bytes) -> None:
        """Each record of the source comes once and in its order, so the next one is known."""
        wanted = b"%d-%d" % (partition, self.arrived[partition])
        assert value == wanted, f"{self.client} copied {value!r} where {wanted!r} was due"
        self.arrived[partition] += 1


class Reader:
    def __init__(self, broker: BrokerProcess, copies: list[Copy]) -> None:
        self._copies = {copy.topic: copy for copy in copies}
        self._at_end: set[tuple[str, int]] = set()
        self._consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
                "error_cb": lambda _: None,
            }
        )
        self._consumer.assign(
            [TopicPartition(topic, index, 0) for topic in self._copies for index in range(PARTITIONS)]
        )

    def read(self) -> bool:
        """Take what has come; whether there was any."""
        messages = self._consumer.consume(1_000, POLL_SECONDS)
        for message in messages:
            where = message.topic() or "", message.partition() or 0
            error = message.error()
            if error is None:
                self._at_end.discard(where)
                self._copies[where[0]].take(where[1], message.value() or b"")
            elif error.code() == KafkaError._PARTITION_EOF:
                self._at_end.add(where)
        return any(message.error() is None for message in messages)

    def read_to_end(self, seconds: float) -> None:
        self._at_end.clear()
        self._consumer.assign(
            [TopicPartition(copy.topic, index, 0) for copy in self._copies.values() for index in range(PARTITIONS)]
        )
        for copy in self._copies.values():
            copy.arrived = [0] * PARTITIONS
        deadline = time.monotonic() + seconds
        while len(self._at_end) < len(self._copies) * PARTITIONS:
            self.read()
            assert time.monotonic() < deadline, "no end"

    def close(self) -> None:
        self._consumer.close()


def fill(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topics = [NewTopic(name, PARTITIONS) for name in (SOURCE, *(f"copy-{client}" for client in SOURCES))]
    for created in admin.create_topics(topics).values():
        created.result(SIZE.wait_seconds)
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 10_000_000}
    )
    for number in range(SIZE.records):
        for partition in range(PARTITIONS):
            producer.produce(SOURCE, b"%d-%d" % (partition, number), partition=partition)
    assert producer.flush(SIZE.wait_seconds) == 0


@contextmanager
def copying(broker: BrokerProcess, directory: Path) -> Iterator[list[Copy]]:
    copies = []
    for client in SOURCES:
        command = [sys.executable, "-m", "tests.chaos.copier", client, broker.bootstrap, SOURCE, f"copy-{client}"]
        copiers = [
            Copier(
                [*command, str(number), str(SIZE.instances), str(SIZE.transaction_records)],
                directory / f"{client}-{number}.errors",
            )
            for number in range(SIZE.instances)
        ]
        copies.append(Copy(client, copiers))
    try:
        for copy in copies:
            for copier in copy.copiers:
                copier.start()
        yield copies
    finally:
        for copy in copies:
            for copier in copy.copiers:
                copier.kill()


class Storm:
    def __init__(self, broker: BrokerProcess, copies: list[Copy]) -> None:
        self._broker = broker
        self._copies = copies
        self._broker_kills = 0
        self._chance = random.Random(SIZE.records)

    @property
    def progress(self) -> float:
        return sum(copy.progress for copy in self._copies) / len(self._copies)

    def disturb(self) -> None:
        """A copier that has come as far as its next kill is killed; all that is left is left to the clients."""
        for copy in self._copies:
            if copy.kills < SIZE.kills and copy.progress > (copy.kills + 0.5) / (SIZE.kills + 1):
                copy.kills += 1
                copier = self._chance.choice(copy.copiers)
                copier.kill()
                copier.start()
        if self._broker_kills < SIZE.broker_kills and self.progress > (self._broker_kills + 1) / (
            SIZE.broker_kills + 2
        ):
            self._broker_kills += 1
            self._broker.kill()
            self._broker.start()

    def look_after(self, last_arrival: float) -> None:
        for copy in self._copies:
            for copier in copy.copiers:
                copier.revive()
        if time.monotonic() - last_arrival > SIZE.wait_seconds:
            state = {copy.client: copy.arrived for copy in self._copies}
            errors = [copier.errors.read_text()[-1_000:] for copy in self._copies for copier in copy.copiers]
            pytest.fail("\n".join((f"nothing arrives any more: {state}", *errors, self._broker.log[-3_000:])))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    settings = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=1000")
    process = BrokerProcess(tmp_path / "data", *settings).start()
    try:
        yield process
    finally:
        process.kill()


def test_a_copy_is_what_it_was_copied_from_when_copiers_and_brokers_are_killed(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    fill(broker)
    with copying(broker, tmp_path) as copies:
        storm = Storm(broker, copies)
        reader = Reader(broker, copies)
        try:
            last_arrival = time.monotonic()
            while storm.progress < 1:
                if reader.read():
                    last_arrival = time.monotonic()
                storm.disturb()
                storm.look_after(last_arrival)
            finish(broker, copies)
            # Once more from the beginning: what was read while it was written is what stays.
            reader.read_to_end(SIZE.wait_seconds)
        finally:
            reader.close()
        assert {copy.client: copy.arrived for copy in copies} == {
            client: [SIZE.records] * PARTITIONS for client in SOURCES
        }
    assert broker.stop() == 0
    assert "Traceback" not in broker.log, broker.log


def finish(broker: BrokerProcess, copies: list[Copy]) -> None:
    """No copier runs any more, and whatever was left open is aborted by another producer with its id."""
    for copy in copies:
        for number, copier in enumerate(copy.copiers):
            copier.kill()
            ConfluentProducer(broker.bootstrap, f"{copy.topic}-{number}").close()
