"""Prefetched records through wake-ups, signals, forks, elections and values that cannot be read."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from levada.client.errors import SerializationFailed
from levada.records import ConsumerRecord
from tests.batches import produce_one_batch
from tests.brokers import BrokerProcess, sound
from tests.clients.cases import numbered, produce, topic_of
from tests.clients.group_cases import BROKER_SETTINGS
from tests.clients.scripts import run_script
from tests.integration.prefetching import COUNT, WAIT_SECONDS, check_has_prefetched, committed, offsets_of, reader, take


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = [f"{name}={value}" for name, value in BROKER_SETTINGS.items()]
    with sound(BrokerProcess(tmp_path_factory.mktemp("broker") / "data", *settings)) as process:
        yield process


@pytest.fixture(scope="module")
def topic(broker: BrokerProcess) -> str:
    """Of two partitions, which are only read."""
    name = topic_of(broker.bootstrap, "prefetched", 2)
    for partition in range(2):
        produce_one_batch(broker, name, numbered(COUNT), partition)
    return name


# Threads, signals, processes


def test_a_wakeup_takes_nothing_away(broker: BrokerProcess, topic: str) -> None:
    with reader(broker, (topic, 0)) as consumer:
        is_over = threading.Event()

        def wake() -> None:
            while not is_over.wait(0.001):
                consumer.wakeup()

        thread = threading.Thread(target=wake)
        thread.start()
        try:
            offsets: list[int] = []
            while len(offsets) < COUNT:
                offsets += offsets_of(consumer.poll(WAIT_SECONDS, 2))
                # Else all is read before the other thread has its turn.
                time.sleep(0.0001)
            start = time.monotonic()
            assert consumer.poll(WAIT_SECONDS, 2) == []
            assert time.monotonic() - start < WAIT_SECONDS / 2
        finally:
            is_over.set()
            thread.join()
        assert offsets == list(range(COUNT))


def test_a_signal_handler_may_use_the_consumer(broker: BrokerProcess, topic: str) -> None:
    """It runs between any two steps of the thread that polls, and waits for the client there."""
    ending = run_script(
        """
        consumer = Consumer(bootstrap, auto_offset_reset="earliest")
        consumer.assign([(topic, 0)])
        at = len(consumer.poll(10, 1))
        positions = []

        def look(*_):
            positions.append(consumer.position((topic, 0)))
            signal.setitimer(signal.ITIMER_REAL, 0.0005)

        signal.signal(signal.SIGALRM, look)
        signal.setitimer(signal.ITIMER_REAL, 0.0005)
        while at < 3_000:
            for record in consumer.poll(10, 1):
                assert record.offset == at
                at += 1
            if len(positions) < 300 and at == 2_900:
                at = 0
                consumer.seek((topic, 0), at)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        print(consumer.position((topic, 0)), len(positions) >= 300)
        consumer.close()
        """,
        broker.bootstrap,
        topic,
    )
    ending.check_quiet()
    assert ending.said == [f"{COUNT} True"]


@pytest.mark.parametrize("way", ["poll", "poll_arrow"])
def test_records_that_an_interrupt_kept_from_the_caller_are_not_consumed(
    broker: BrokerProcess, topic: str, way: str
) -> None:
    """The interrupt comes when the loop has taken the records, and the thread that polls has not got them yet."""
    ending = run_script(
        """
        class Onlooker:
            def on_consume(self, records):
                if interrupts:
                    os.kill(os.getpid(), interrupts.pop())
                return records

        class Rows(float):
            def __lt__(self, other):
                if interrupts:
                    os.kill(os.getpid(), interrupts.pop())
                return float(self) < other

        with Consumer(bootstrap, group_id=topic + sys.argv[3], auto_offset_reset="earliest",
                      interceptor_classes=[Onlooker]) as consumer:
            consumer.assign([(topic, 0), (topic, 1)])
            polls = {"poll": lambda: consumer.poll(10), "poll_arrow": lambda: consumer.poll_arrow(10, max_rows=Rows(5))}
            poll = polls[sys.argv[3]]
            for _ in range(3):
                interrupts = [signal.SIGINT]
                try:
                    poll()
                    print("not interrupted")
                except KeyboardInterrupt:
                    positions = [consumer.position((topic, partition)) for partition in range(2)]
                    print(positions, consumer.metrics()["records-consumed-total"])
        with Consumer(bootstrap, group_id=topic + sys.argv[3]) as consumer:
            print([offset and offset.offset for offset in consumer.committed([(topic, 0), (topic, 1)]).values()])
        """,
        broker.bootstrap,
        topic,
        way,
    )
    ending.check_quiet()
    assert ending.said == [*["[0, 0] 0"] * 3, "[0, 0]"]


@pytest.mark.parametrize("end", ["pass", "del consumer; gc.collect()", "sys.exit(0)"], ids=["exit", "dropped", "sys"])
def test_who_does_not_close_has_committed_all_the_same(broker: BrokerProcess, topic: str, end: str) -> None:
    group = f"{topic}-{len(end)}"
    ending = run_script(
        f"""
        consumer = Consumer(bootstrap, group_id=sys.argv[3], auto_offset_reset="earliest")
        consumer.assign([(topic, 0)])
        for _ in range(50):
            assert len(consumer.poll(10, 2)) == 2
        {end}
        """,
        broker.bootstrap,
        topic,
        group,
    )
    ending.check_quiet()
    assert committed(broker, group, (topic, 0)) == [100]


def test_what_is_prefetched_stays_with_the_parent_of_a_fork(broker: BrokerProcess, topic: str) -> None:
    ending = run_script(
        """
        consumer = Consumer(bootstrap, group_id=topic, auto_offset_reset="earliest")
        consumer.assign([(topic, 0)])
        found = []
        for _ in range(20):
            found += consumer.poll(10, 2)
        child = os.fork()
        if child == 0:
            try:
                print("no error", consumer.poll(1.0, 2), flush=True)
            except IllegalState as error:
                print("fork" in str(error), flush=True)
            consumer.close()
            os._exit(7)
        for _ in range(20):
            found += consumer.poll(10, 2)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status))
        print([record.offset for record in found] == list(range(80)), consumer.position((topic, 0)))
        consumer.close()
        """,
        broker.bootstrap,
        topic,
    )
    ending.check_quiet()
    assert ending.said == ["True", "7", "True 80"]


# Brokers


def test_what_is_prefetched_counts_even_if_the_leader_changes_before_it_comes_back(own_broker: BrokerProcess) -> None:
    topic = topic_of(own_broker.bootstrap, "led-anew")
    produce(own_broker.bootstrap, topic, numbered(COUNT), **{"batch.num.messages": 1_000})
    with reader(own_broker, (topic, 0), reconnect_backoff_max_ms=100) as consumer:
        offsets = take(consumer, 10, 50)
        own_broker.kill()
        own_broker.start()
        # Without a call of the consumer's, which would end the prefetch.
        fetcher = consumer._client._engine.fetcher
        deadline = time.monotonic() + WAIT_SECONDS
        while fetcher._backlogs:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        batch = consumer.poll_arrow(WAIT_SECONDS, max_rows=1)
        assert batch is not None
        offsets += batch.column("offset").to_pylist()
        while len(offsets) < COUNT:
            offsets += take(consumer, 1)
        assert offsets == list(range(COUNT))


# Deserializers and interceptors


def test_a_value_that_cannot_be_read_comes_after_all_before_it(broker: BrokerProcess, topic: str) -> None:
    def number(data: bytes | None) -> int:
        value = int(data or b"")
        if value == 100:
            raise ValueError("not this one")
        return value

    with reader(broker, (topic, 0), value_deserializer=number) as consumer:
        values: list[Any] = [record.value for _ in range(34) for record in consumer.poll(WAIT_SECONDS, 3)]
        assert values == list(range(100))
        check_has_prefetched(consumer, 34)
        for _ in range(2):
            with pytest.raises(SerializationFailed, match="offset 100"):
                consumer.poll(WAIT_SECONDS, 3)
            assert consumer.position((topic, 0)) == 100
        consumer.seek((topic, 0), 101)
        assert take(consumer, 4) == list(range(101, 113))


class Onlooker:
    """Sees all that is returned, and changes it."""

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        return [record._replace(value=b"seen") for record in records]


def test_interceptors_see_every_record(broker: BrokerProcess, topic: str) -> None:
    with reader(broker, (topic, 0), interceptor_classes=[Onlooker]) as consumer:
        records = [record for _ in range(30) for record in consumer.poll(WAIT_SECONDS, 3)]
        assert offsets_of(records) == list(range(90))
        assert {record.value for record in records} == {b"seen"}
        assert consumer.metrics()["records-consumed-total"] == 90
