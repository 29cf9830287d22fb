"""Garbage on the port, 10,000 connections of it: the broker keeps its memory, and a good client notices nothing."""

import asyncio
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop
from confluent_kafka import Consumer, Producer

from levada.net.channel import Channel
from levada.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from levada.world.real_net import RealNet
from tests.brokers import BrokerProcess
from tests.fuzz.attack import attack, streams
from tests.fuzz.streams import KINDS
from tests.fuzz.values import TOPICS

CONNECTIONS = 10_000
WARM_UP = 500
AT_ONCE = 300
MAY_GROW_MB = 30
WAIT_SECONDS = 60.0
GOOD_TOPIC = "good"
SETTINGS = ("auto.create.topics.enable=false", "group.initial.rebalance.delay.ms=0")


class GoodClient:
    """Produces numbered records and consumes them, on threads of its own, until it is told to stop."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.errors: list[Any] = []
        self.sent = 0
        self.received: list[int] = []
        self._is_stopping = threading.Event()
        self._deadline = float("inf")
        common = {"bootstrap.servers": broker.bootstrap, "error_cb": self.errors.append, "log_level": 0}
        self._producer = Producer({**common, "enable.idempotence": True, "linger.ms": 1})
        self._consumer = Consumer({**common, "group.id": "good", "auto.offset.reset": "earliest"})
        self._consumer.subscribe([GOOD_TOPIC])
        self._threads = [threading.Thread(target=run) for run in (self._produce, self._consume)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Send no more, and read what was sent."""
        self._deadline = time.monotonic() + WAIT_SECONDS
        self._is_stopping.set()
        for thread in self._threads:
            thread.join()

    def _produce(self) -> None:
        while not self._is_stopping.is_set():
            self._producer.produce(GOOD_TOPIC, b"%d" % self.sent, on_delivery=self._on_delivery)
            self.sent += 1
            self._producer.poll(0.005)
        if self._producer.flush(WAIT_SECONDS):
            self.errors.append("not all was acknowledged")
        self._producer.close()

    def _consume(self) -> None:
        while not self._is_stopping.is_set() or len(self.received) < self.sent:
            for message in self._consumer.consume(1_000, 0.2):
                if message.error() is None:
                    self.received.append(int(message.value() or b""))
                else:
                    self.errors.append(message.error())
            if time.monotonic() > self._deadline:
                break
        self._consumer.close()

    def _on_delivery(self, error: Any, _: Any) -> None:
        if error is not None:
            self.errors.append(error)


def memory_mb(broker: BrokerProcess) -> float:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{broker.pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def open_sockets(broker: BrokerProcess) -> int:
    count = 0
    for entry in os.scandir(f"/proc/{broker.pid}/fd"):
        try:
            count += os.readlink(entry.path).startswith("socket:")
        except FileNotFoundError:
            pass
    return count


def wait_until(is_so: Callable[[], bool], otherwise: Callable[[], str]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, otherwise()
        time.sleep(0.05)


async def create_topics(port: int, *names: str) -> None:
    channel = await Channel.connect(RealNet(), "localhost", port)
    topics = [
        CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]) for name in names
    ]
    created = await channel.call(CreateTopicsRequest(topics=topics), 7)
    assert not any(topic.error_code for topic in created.topics)
    channel.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "data", *SETTINGS).start()
    try:
        yield process
    finally:
        process.kill()


def test_ten_thousand_hostile_connections_leave_no_trace(broker: BrokerProcess) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sockets_before = open_sockets(broker)
        runner.run(create_topics(broker.port, GOOD_TOPIC, *TOPICS))
        good = GoodClient(broker)
        try:
            wait_until(lambda: bool(good.received), lambda: f"the good client never began: {good.errors}")
            assert runner.run(attack(broker.port, streams("warm-up", WARM_UP), AT_ONCE)) == WARM_UP
            memory_before_mb = memory_mb(broker)
            assert runner.run(attack(broker.port, streams("garbage", CONNECTIONS), AT_ONCE)) == CONNECTIONS
        finally:
            good.stop()
        wait_until(lambda: open_sockets(broker) <= sockets_before, lambda: f"{open_sockets(broker)} sockets are open")
        assert memory_mb(broker) - memory_before_mb < MAY_GROW_MB
        runner.run(create_topics(broker.port, "after-all"))
    assert good.errors == []
    assert good.received == list(range(good.sent))
    assert "Traceback" not in broker.log
    assert "error of our own" not in broker.log
    assert broker.stop() == 0


def test_every_kind_of_garbage_is_made_alike_by_the_same_seed() -> None:
    once, again = (list(streams("seed", 4 * len(KINDS))) for _ in range(2))
    assert once == again
    assert {stream.kind for stream in once} == set(KINDS)
