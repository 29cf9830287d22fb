"""Our blocking clients among threads: many senders, closing meanwhile, callbacks that use the client again."""

import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest

from levada import Consumer, Producer
from levada.client.errors import BufferExhausted, IllegalState, KafkaError, TimedOut
from levada.client.producer import Handle
from levada.client.types import RecordMetadata, TopicPartition
from tests.brokers import BrokerProcess
from tests.clients.cases import topic_of

WAIT_SECONDS = 20.0


@contextmanager
def stopped(broker: BrokerProcess) -> Iterator[None]:
    """The broker does not answer, and is not dead."""
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def read_all(bootstrap: str, topic: str, wanted: int) -> list[list[bytes | None]]:
    """The values of each partition."""
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        places = [TopicPartition(topic, each.index) for each in consumer.partitions_for(topic)]
        consumer.assign(places)
        values: list[list[bytes | None]] = [[] for _ in places]
        deadline = time.monotonic() + WAIT_SECONDS
        while sum(map(len, values)) < wanted:
            assert time.monotonic() < deadline, sum(map(len, values))
            for record in consumer.poll(0.5):
                values[record.partition].append(record.value)
    return values


class InThread:
    """A call in a thread of its own, and what it ended in."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_done = False
        self._work = work
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait(self, seconds: float = WAIT_SECONDS) -> Any:
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "it hangs"
        return self.result

    def _run(self) -> None:
        try:
            self.result = self._work()
        except BaseException as error:
            self.error = error
        self.is_done = True


def test_threads_share_a_producer(broker: BrokerProcess) -> None:
    topic = topic_of(broker.bootstrap, "shared", 3)
    with Producer(broker.bootstrap, buffer_memory=1 << 20) as producer:

        def send(sender: int) -> list[int]:
            handles = [producer.send(topic, b"%d-%d" % (sender, n), partition=n % 3) for n in range(1_000)]
            many = producer.send_many(topic, [b"%d-%d" % (sender, n) for n in range(1_000, 1_300)], partition=1)
            assert many.result(WAIT_SECONDS) == 300
            return [handle.result(WAIT_SECONDS).offset for handle in handles]

        senders = [InThread(lambda sender=sender: send(sender)) for sender in range(6)]  # type: ignore[misc]
        offsets = [sender.wait() for sender in senders]
    assert not [sender.error for sender in senders if sender.error]
    values = read_all(broker.bootstrap, topic, 6 * 1_300)
    assert len({value for each in values for value in each}) == 6 * 1_300
    for partition, log in enumerate(values):
        for sender in range(6):
            numbers = [int(value.partition(b"-")[2]) for value in log if value and value.startswith(b"%d-" % sender)]
            assert numbers == sorted(numbers)
            own = offsets[sender][partition::3]
            assert [log[offset] for offset in own] == [b"%d-%d" % (sender, n) for n in range(partition, 1_000, 3)]


def test_senders_are_told_when_the_producer_is_closed_meanwhile(broker: BrokerProcess) -> None:
    topic = topic_of(broker.bootstrap, "closed", 2)
    producer = Producer(broker.bootstrap, buffer_memory=200_000, batch_size=1_000)
    handles: list[list[Handle]] = [[] for _ in range(4)]

    def send(sender: int) -> None:
        for number in count():
            handles[sender].append(producer.send(topic, b"%d-%d" % (sender, number)))

    senders = [InThread(lambda sender=sender: send(sender)) for sender in range(4)]  # type: ignore[misc]
    deadline = time.monotonic() + WAIT_SECONDS
    while not all(len(each) > 200 for each in handles):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    producer.close()
    for sender in senders:
        sender.wait(5)
        assert isinstance(sender.error, IllegalState), sender.error
    acknowledged = 0
    for handle in [handle for each in handles for handle in each]:
        assert handle.done(), "a record was taken, and no handle tells what became of it"
        acknowledged += handle.exception(0) is None
    assert acknowledged == sum(map(len, handles)), "what was taken before the end was sent"
    values = read_all(broker.bootstrap, topic, acknowledged)
    assert len({value for each in values for value in each}) == acknowledged


@pytest.mark.parametrize("call", ["send", "flush", "send_many", "poll", "commit"])
def test_a_call_that_waits_is_told_when_the_client_is_closed(broker: BrokerProcess, call: str) -> None:
    topic = topic_of(broker.bootstrap, "waiting")
    client: Producer | Consumer
    if call in ("poll", "commit"):
        client = Consumer(broker.bootstrap, auto_offset_reset="earliest", group_id=topic)
        client.assign([(topic, 0)])
        client.poll(0.1)
    else:
        client = Producer(broker.bootstrap, buffer_memory=100_000, batch_size=1_000, max_block_ms=60_000)
        client.send(topic, b"known").result(WAIT_SECONDS)

    def send() -> None:
        while True:
            client.send(topic, bytes(10_000))  # type: ignore[union-attr]

    calls: dict[str, Callable[[], Any]] = {
        "send": send,
        "flush": lambda: (client.send(topic, b"one"), client.flush()),  # type: ignore[union-attr]
        "send_many": lambda: client.send_many(topic, [bytes(10_000)] * 100),  # type: ignore[union-attr]
        "poll": lambda: client.poll(60),  # type: ignore[union-attr]
        "commit": lambda: client.commit({(topic, 0): 0}),  # type: ignore[union-attr]
    }
    with stopped(broker):
        waiting = InThread(calls[call])
        time.sleep(0.3)
        assert not waiting.is_done, waiting.error
        start = time.monotonic()
        client.close(0.3)
        waiting.wait(5)
        assert time.monotonic() - start < 5
        if call != "flush":
            # All records that a flush waits for have failed: that is an outcome, and what it waits for.
            assert isinstance(waiting.error, KafkaError), waiting.error
    with pytest.raises(IllegalState, match="closed"):
        calls[call]()
    client.close()


def test_a_delivery_callback_may_send_and_may_not_wait(broker: BrokerProcess, caplog: pytest.LogCaptureFixture) -> None:
    topic = topic_of(broker.bootstrap, "callback")
    refusals: list[KafkaError] = []
    second = threading.Event()

    with Producer(broker.bootstrap) as producer:
        waits: list[Callable[[], Any]] = [
            producer.flush,
            producer.close,
            lambda: producer.send("a topic that is not known yet", b"value"),
            lambda: producer.send_many(topic, [b"value"]),
        ]

        def on_first(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
            for wait in waits:
                try:
                    wait()
                except IllegalState as refusal:
                    refusals.append(refusal)
            producer.send(topic, b"second", on_delivery=lambda *_: second.set())
            raise RuntimeError("of the user's")

        handle = producer.send(topic, b"first", on_delivery=on_first)
        handle.result(WAIT_SECONDS)
        assert second.wait(WAIT_SECONDS)
        producer.send(topic, b"third").result(WAIT_SECONDS)
    assert len(refusals) == len(waits)
    assert all("thread" in str(refusal) for refusal in refusals)
    assert "a delivery callback failed" in caplog.text
    assert read_all(broker.bootstrap, topic, 3) == [[b"first", b"second", b"third"]]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_rebalance_listener_may_use_the_consumer(broker: BrokerProcess, protocol: str) -> None:
    topic = topic_of(broker.bootstrap, "listener", 2)
    with Producer(broker.bootstrap) as producer:
        producer.send_many(topic, [b"%d" % n for n in range(10)], partition=0).result(WAIT_SECONDS)
        producer.send_many(topic, [b"%d" % n for n in range(10)], partition=1).result(WAIT_SECONDS)
    told: list[Any] = []

    class Listener:
        def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
            assert threading.current_thread() is threading.main_thread()
            told.extend(("position", each.partition, consumer.position(each)) for each in sorted(partitions))
            consumer.seek((topic, 0), 5)
            consumer.pause([(topic, 1)])
            told.append(("assignment", len(consumer.assignment())))

        def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
            consumer.commit()
            told.append(("revoked", len(partitions)))

        def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
            told.append("lost")

    options = {"group_id": topic, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    with Consumer(broker.bootstrap, group_protocol=protocol, **options) as consumer:
        consumer.subscribe([topic], listener=Listener())
        values: list[tuple[int, bytes | None]] = []
        deadline = time.monotonic() + WAIT_SECONDS
        while len(values) < 5:
            assert time.monotonic() < deadline
            values += [(record.partition, record.value) for record in consumer.poll(0.5)]
        assert values == [(0, b"%d" % n) for n in range(5, 10)]
        assert consumer.paused() == {TopicPartition(topic, 1)}
    assert told == [("position", 0, 0), ("position", 1, 0), ("assignment", 2), ("revoked", 2)]
    with Consumer(broker.bootstrap, group_id=topic) as other:
        places = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
        found = other.committed(places)
    assert [position and position.offset for position in found.values()] == [10, 0]


def test_what_a_listener_raises_reaches_the_one_who_polls(broker: BrokerProcess) -> None:
    topic = topic_of(broker.bootstrap, "raising")

    class Listener:
        def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
            raise RuntimeError("of the user's")

        def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None: ...

        def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None: ...

    def poll_till_it_raises() -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            consumer.poll(0.5)

    with Consumer(broker.bootstrap, group_id=topic) as consumer:
        consumer.subscribe([topic], listener=Listener())
        with pytest.raises(RuntimeError, match="of the user's"):
            poll_till_it_raises()
        consumer.poll(0.1)


# max.block.ms


def fill(producer: Producer, topic: str) -> int:
    """Send until there is no more memory; how many were taken."""
    for number in count():
        try:
            producer.send(topic, bytes(1_000))
        except BufferExhausted:
            return number
    raise AssertionError("it is never full")


def test_no_time_to_block_means_an_error_at_once(broker: BrokerProcess) -> None:
    topic = topic_of(broker.bootstrap, "no-time")
    with Producer(broker.bootstrap, max_block_ms=0, buffer_memory=100_000) as producer:
        # The client has not asked for the topic yet, and there is no time to.
        with pytest.raises(TimedOut, match=r"max\.block\.ms"):
            producer.send(topic, b"first")
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                producer.send(topic, b"known by now").result(WAIT_SECONDS)
                break
            except TimedOut:
                assert time.monotonic() < deadline
                time.sleep(0.02)
        with stopped(broker):
            start = time.monotonic()
            assert fill(producer, topic) > 50
            with pytest.raises(BufferExhausted, match=r"max\.block\.ms \(0\)"):
                producer.send_many(topic, [bytes(1_000)] * 200)
            assert time.monotonic() - start < 3
        producer.flush(WAIT_SECONDS)
        producer.send(topic, b"after").result(WAIT_SECONDS)


def test_without_a_limit_a_send_waits_as_long_as_it_takes(broker: BrokerProcess) -> None:
    topic = topic_of(broker.bootstrap, "unlimited")
    with Producer(broker.bootstrap, max_block_ms=2**63 - 1, buffer_memory=100_000) as producer:
        producer.send(topic, b"known").result(WAIT_SECONDS)
        with stopped(broker):
            waiting = InThread(lambda: [producer.send(topic, bytes(1_000)) for _ in range(300)])
            time.sleep(1.0)
            assert not waiting.is_done
        handles = waiting.wait()
        assert waiting.error is None
        assert all(handle.result(WAIT_SECONDS).offset > 0 for handle in handles)
