"""Members of one group join, leave and die while records flow and the broker is killed: each record is delivered."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from tests.brokers import BrokerProcess
from tests.consumers import MEMBERS

TOPIC = "storm"
"""The group's name too."""
SESSION_TIMEOUT_MS = 3_000
RECORDS_UNDER_WAY = 500
WAIT_SECONDS = 90.0
ADMIN_SECONDS = 10.0


@dataclass(frozen=True)
class Size:
    partitions: int
    processes: int
    members_each: int
    broker_kills: int
    events_each: int
    """Members that come and go between two kills of the broker."""


SHORT = Size(partitions=20, processes=5, members_each=2, broker_kills=1, events_each=2)
LONG = Size(partitions=60, processes=10, members_each=3, broker_kills=12, events_each=5)
SIZE = LONG if os.environ.get("LEVADA_SOAK") == "1" else SHORT


class Flow:
    """Records from an idempotent producer that never runs far ahead of what is delivered."""

    def __init__(self, broker: BrokerProcess, delivered: Callable[[], int]) -> None:
        self.sent: list[bytes] = []
        self.failures: list[Any] = []
        self._delivered = delivered
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": int(WAIT_SECONDS * 1_000),
                "socket.timeout.ms": 5_000,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
                "error_cb": lambda _: None,
            }
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def finish(self) -> set[bytes]:
        """All that was sent, once it is acknowledged."""
        self.stop()
        assert self._producer.flush(WAIT_SECONDS) == 0
        assert self.failures == []
        return set(self.sent)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._producer.poll(0.01)
            while len(self.sent) < self._delivered() + RECORDS_UNDER_WAY and len(self._producer) < RECORDS_UNDER_WAY:
                value = b"%d" % len(self.sent)
                partition = len(self.sent) % SIZE.partitions
                self._producer.produce(TOPIC, value, partition=partition, on_delivery=self._on_delivery)
                self.sent.append(value)

    def _on_delivery(self, error: Any, _message: Any) -> None:
        if error is not None:
            self.failures.append(error)


@dataclass
class Worker:
    """A process with a few members of the group."""

    process: "subprocess.Popen[str]"
    received: Path
    """Made once it can be asked to leave."""
    errors: Path
    read_bytes: int = 0

    def read(self) -> list[bytes]:
        """Values that it has received since this was asked last."""
        if not self.received.exists():
            return []
        with self.received.open("rb") as file:
            file.seek(self.read_bytes)
            lines = file.read()
        # A line may be half written.
        whole = lines[: lines.rfind(b"\n") + 1]
        self.read_bytes += len(whole)
        return whole.split()

    def leave(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait(self) -> None:
        try:
            code = self.process.wait(WAIT_SECONDS)
        finally:
            self.kill()
        assert code == 0 or not self.received.exists(), self.errors.read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Crowd:
    """All who are or were members of the group, and what they have received."""

    def __init__(self, broker: BrokerProcess, directory: Path) -> None:
        self.received: set[bytes] = set()
        self.running: list[Worker] = []
        self._broker = broker
        self._directory = directory
        self._gone: list[Worker] = []

    def join(self) -> None:
        """One process more."""
        number = len(self.running) + len(self._gone)
        clients = [list(MEMBERS)[(number + member) % len(MEMBERS)] for member in range(SIZE.members_each)]
        received, errors = self._directory / f"received-{number}", self._directory / f"errors-{number}"
        command = [sys.executable, "-m", "tests.chaos.group_worker", self._broker.bootstrap, TOPIC]
        command += [str(SESSION_TIMEOUT_MS), str(received), *clients]
        with errors.open("w") as log:
            self.running.append(Worker(subprocess.Popen(command, stderr=log, text=True), received, errors))

    def leave(self, which: int) -> None:
        """The members of one process leave the group in peace."""
        worker = self._part_with(which)
        worker.leave()
        worker.wait()

    def die(self, which: int) -> None:
        self._part_with(which).kill()

    def read(self) -> set[bytes]:
        """All that was received by now."""
        for worker in (*self.running, *self._gone):
            self.received.update(worker.read())
        return self.received

    def check(self) -> None:
        for worker in self.running:
            assert worker.process.poll() is None, worker.errors.read_text()

    def finish(self) -> None:
        """All leave."""
        for worker in self.running:
            worker.leave()
        for worker in self.running:
            worker.wait()

    def kill(self) -> None:
        for worker in self.running:
            worker.kill()

    def _part_with(self, which: int) -> Worker:
        worker = self.running.pop(which)
        self._gone.append(worker)
        return worker


class Storm:
    def __init__(self, broker: BrokerProcess, crowd: Crowd, flow: Flow) -> None:
        self._broker = broker
        self._crowd = crowd
        self._flow = flow
        self._settled = 0
        self._chance = random.Random(SIZE.partitions)

    @property
    def admin(self) -> Any:
        """A new one each time: librdkafka's goes on asking the coordinator it knew before all brokers were down."""
        return AdminClient({"bootstrap.servers": self._broker.bootstrap, "log_level": 0})

    def wait_until(self, is_true: Callable[[], bool], what: Callable[[], str]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not is_true():
            self._crowd.check()
            assert time.monotonic() < deadline, f"{what()}\n{self._broker.log[-3_000:]}"
            time.sleep(0.05)

    def settle(self) -> None:
        """Until all that is sent is delivered, so no member's partitions lie idle, and every process has its part."""
        sent = len(self._flow.sent)
        had = {worker.received: worker.read_bytes for worker in self._crowd.running}

        def is_settled() -> bool:
            self._crowd.read()
            missing = sum(b"%d" % number not in self._crowd.received for number in range(self._settled, sent))
            idle = [worker.received for worker in self._crowd.running if worker.read_bytes == had[worker.received]]
            return not missing and not idle

        self.wait_until(is_settled, lambda: "the group does not settle")
        self._settled = sent

    def disturb(self) -> None:
        """One process goes, in peace or not, and another comes; or the other way round."""
        which = self._chance.randrange(len(self._crowd.running))
        go = self._chance.choice((self._crowd.leave, self._crowd.die))
        if self._chance.random() < 0.5:
            self._crowd.join()
            go(which)
        else:
            go(which)
            self._crowd.join()
        if self._chance.random() < 0.5:
            # Else the next event falls into the rebalance.
            self.settle()

    def kill_broker(self) -> None:
        before = self.committed()
        self._broker.kill()
        self._broker.start()
        # Members that found it first may have gone on, but nothing goes back.
        after = self.committed()
        assert {index: offset for index, offset in before.items() if after.get(index, -1) < offset} == {}

    def committed(self) -> dict[int, int]:
        found: dict[int, int] = {}
        refusals: list[str] = []

        def is_told() -> bool:
            admin, group = self.admin, ConsumerGroupTopicPartitions(TOPIC)
            (listed,) = admin.list_consumer_group_offsets([group], request_timeout=ADMIN_SECONDS).values()
            try:
                partitions = listed.result().topic_partitions
            except KafkaException as error:
                # It is being loaded.
                refusals.append(str(error))
                return False
            found.update({one.partition: one.offset for one in partitions})
            return True

        self.wait_until(is_told, lambda: f"what is committed? {refusals}")
        return found

    def ends(self) -> dict[int, int]:
        latest: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        wanted = {TopicPartition(TOPIC, index): latest for index in range(SIZE.partitions)}
        admin = self.admin
        listed = admin.list_offsets(wanted, request_timeout=WAIT_SECONDS)
        return {where.partition: future.result(WAIT_SECONDS).offset for where, future in listed.items()}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    settings = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=1000")
    process = BrokerProcess(tmp_path / "data", *settings).start()
    try:
        yield process
    finally:
        process.kill()


@contextmanager
def crowd_of(broker: BrokerProcess, directory: Path) -> Iterator[tuple[Crowd, Flow]]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (created,) = admin.create_topics([NewTopic(TOPIC, SIZE.partitions)]).values()
    created.result(WAIT_SECONDS)
    crowd = Crowd(broker, directory)
    flow = Flow(broker, lambda: len(crowd.received))
    try:
        yield crowd, flow
    finally:
        crowd.kill()
        flow.stop()


def test_every_record_is_delivered_while_members_come_and_go_and_the_broker_is_killed(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    with crowd_of(broker, tmp_path) as (crowd, flow):
        storm = Storm(broker, crowd, flow)
        for _ in range(SIZE.processes):
            crowd.join()
        storm.settle()
        for _ in range(SIZE.broker_kills):
            for _ in range(SIZE.events_each):
                storm.disturb()
            storm.kill_broker()
            storm.settle()
        sent = flow.finish()
        storm.wait_until(lambda: crowd.read() == sent, lambda: "some records are not delivered")
        ends = storm.ends()
        storm.wait_until(lambda: storm.committed() == ends, lambda: "what was delivered is not committed")
        crowd.finish()
        admin = storm.admin
        (described,) = admin.describe_consumer_groups([TOPIC]).values()
        assert described.result(WAIT_SECONDS).state == ConsumerGroupState.EMPTY
    assert broker.stop() == 0
    assert "Traceback" not in broker.log, broker.log
