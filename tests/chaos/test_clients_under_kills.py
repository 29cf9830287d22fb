"""SIGKILL again and again under our own clients: nothing acknowledged is lost or doubled, and no call waits for ever.

`LEVADA_SOAK=1` goes on for five minutes.
"""

import os
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from levada import Admin, Consumer, Producer
from levada.client.admin import NewTopic
from levada.client.types import TopicPartition
from levada.records import ConsumerRecord
from tests.brokers import BrokerProcess
from tests.chaos.client_workers import FAST, Bookkeeper, Pulse, Reader, Reading, Sent, Watcher, Worker, Writer

IS_SOAK = os.environ.get("LEVADA_SOAK") == "1"
SECONDS = 300 if IS_SOAK else 9
LEAST_KILLS = 3
WAIT_SECONDS = 60.0
PATIENT_MS, HASTY_MS = 30_000, 600
SLACK_SECONDS = 1.0
"""The loop's thread has to get its turn on a busy machine before a caller can be told."""
TOPIC, PARTITIONS, TRANSACTIONS, TRANSACTION_PARTITIONS = "killed", 3, "atomic", 2
SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "group.consumer.heartbeat.interval.ms=500",
    "group.consumer.min.heartbeat.interval.ms=500",
    "log.roll.ms=100",
)
GROUPS = {"classic": {"heartbeat_interval_ms": 500}, "next": {"group_protocol": "consumer"}}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "data", *SETTINGS).start()
    try:
        yield process
    finally:
        process.kill()


class Town:
    """All who are at work, on one broker."""

    def __init__(self, broker: BrokerProcess, stack: ExitStack) -> None:
        bootstrap = broker.bootstrap
        with Admin(bootstrap) as admin:
            admin.create_topics(
                [NewTopic(TOPIC, PARTITIONS), NewTopic(TRANSACTIONS, TRANSACTION_PARTITIONS)]
            ).raise_any()
        self.patient = stack.enter_context(
            Producer(bootstrap, delivery_timeout_ms=PATIENT_MS, request_timeout_ms=5_000, batch_size=4_096, **FAST)
        )
        self.hasty = stack.enter_context(
            Producer(bootstrap, delivery_timeout_ms=HASTY_MS, request_timeout_ms=300, linger_ms=0, **FAST)
        )
        self.writers = [Writer(self.patient, TOPIC, PARTITIONS, number) for number in (0, 1)]
        self.gamblers = [Writer(self.hasty, TOPIC, PARTITIONS, 2)]
        self.bookkeeper = Bookkeeper(bootstrap, TRANSACTIONS, **FAST)
        stack.callback(self.bookkeeper.producer.close, 5)
        self.readings = {group: Reading() for group in GROUPS}
        self.readers = [
            Reader(bootstrap, group, TOPIC, self.readings[group], number, **GROUPS[group], **FAST)  # type: ignore[arg-type]
            for group in GROUPS
            for number in (0, 1)
        ]
        places = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
        self.watchers = [Watcher(bootstrap, group, places, **FAST) for group in GROUPS]
        for reader in self.readers:
            stack.callback(reader.close)
        for watcher in self.watchers:
            stack.callback(watcher.close)
        self.pulse = Pulse()
        stack.callback(self.pulse.stop)
        self.producers: list[Worker] = [*self.writers, *self.gamblers, self.bookkeeper]
        for worker in (*self.producers, *self.readers, *self.watchers, self.pulse):
            worker.start()

    def progress(self) -> list[int]:
        """What grows while all is well; in one group at least, as a rebalance takes its time."""
        return [
            *(writer.acknowledged for writer in (*self.writers, *self.gamblers)),
            len(self.bookkeeper.committed),
            sum(reading.commits for reading in self.readings.values()),
        ]

    def wait_for_progress(self) -> None:
        """Until everybody has got on since now."""
        before = self.progress()
        self.wait_until(lambda: all(now > was for now, was in zip(self.progress(), before)), "no client gets on")

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not condition():
            assert time.monotonic() < deadline, (what, self.progress())
            for worker in (*self.producers, *self.readers, *self.watchers):
                worker.check()
            time.sleep(0.02)

    def finish(self) -> None:
        """No more is sent; what was is settled, and read to its end."""
        for worker in self.producers:
            worker.stop()
        self.patient.flush(WAIT_SECONDS)
        self.hasty.flush(WAIT_SECONDS)

    def settled(self) -> list[Sent]:
        return [sent for writer in (*self.writers, *self.gamblers) for sent in writer.sent]


def read_log(bootstrap: str, topic: str, partitions: int, isolation_level: str) -> list[list[ConsumerRecord]]:
    """Each partition from its beginning to its end."""
    places = [TopicPartition(topic, index) for index in range(partitions)]
    logs: list[list[ConsumerRecord]] = [[] for _ in places]
    with Consumer(bootstrap, auto_offset_reset="earliest", isolation_level=isolation_level) as consumer:
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        deadline = time.monotonic() + WAIT_SECONDS
        while any(consumer.position(place) < end for place, end in ends.items()):
            assert time.monotonic() < deadline
            for record in consumer.poll(0.5):
                logs[record.partition].append(record)
    return logs


def place(record: ConsumerRecord) -> str:
    """Its writer and number, and where it is."""
    return f"{(record.value or b'').rstrip(bytes(1)).decode()} at {record.partition}:{record.offset}"


def check_sent(sent: list[Sent], logs: list[list[ConsumerRecord]], pulse: Pulse) -> None:
    """Acknowledged where they are, none twice, in the order they were sent; and everybody was told in time."""
    counts = Counter(record.value for log in logs for record in log)
    twice = [place(record) for log in logs for record in log if counts[record.value] > 1]
    assert not twice, f"records are there twice: {twice}"
    places = {record.value: record.offset for log in logs for record in log}
    for each in sent:
        assert each.told_at, "no callback was told"
        assert each.handle is not None
        assert each.handle.done()
        limit_ms = HASTY_MS if each.value.startswith(b"2-") else PATIENT_MS
        late = each.told_at - each.at - limit_ms / 1_000
        assert late < SLACK_SECONDS or late < SLACK_SECONDS + pulse.stood_still(each.at, each.told_at)
        if each.metadata is not None:
            assert each.handle.result(0) == each.metadata
            # The broker may have forgotten where a batch went that it finds it has already.
            offset = each.metadata.offset if each.metadata.offset >= 0 else places[each.value]
            assert logs[each.partition][offset].value == each.value, "an acknowledged record is lost"
    for log in logs:
        assert [record.offset for record in log] == list(range(len(log)))
        last: dict[bytes, int] = {}
        for record in log:
            writer, number = re.match(rb"(\d+)-(\d+)-", record.value or b"").groups()  # type: ignore[union-attr]
            assert int(number) > last.get(writer, -1), "the order was not kept"
            last[writer] = int(number)


def check_transactions(bookkeeper: Bookkeeper, logs: list[list[ConsumerRecord]]) -> None:
    values = [record.value or b"" for log in logs for record in log]
    assert sorted(values) == sorted(bookkeeper.committed)
    for index, log in enumerate(logs):
        wanted = [value for value in bookkeeper.committed if int(value.rpartition(b"-")[2]) % 2 == index]
        assert [record.value for record in log] == wanted, "committed, and not in order"


@pytest.mark.timeout(SECONDS + 4 * WAIT_SECONDS)
def test_nothing_acknowledged_is_lost_and_no_client_waits_for_ever(broker: BrokerProcess) -> None:
    chance = random.Random(int(os.environ.get("LEVADA_SEED", "7")))
    kills = 0
    with ExitStack() as stack:
        town = Town(broker, stack)
        town.wait_for_progress()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end or kills < LEAST_KILLS:
            time.sleep(chance.choice((0, 0.05, 0.3, 1.5)))
            broker.kill()
            kills += 1
            # Some records of the hasty producer are too late while no broker is there.
            time.sleep(chance.choice((0, 0, 0.5)))
            broker.start()
            town.wait_for_progress()
        town.finish()
        logs = read_log(broker.bootstrap, TOPIC, PARTITIONS, "read_uncommitted")
        check_sent(town.settled(), logs, town.pulse)
        assert all(sent.metadata is not None for writer in town.writers for sent in writer.sent)
        atomic = read_log(broker.bootstrap, TRANSACTIONS, TRANSACTION_PARTITIONS, "read_committed")
        check_transactions(town.bookkeeper, atomic)
        ends = {TopicPartition(TOPIC, index): len(log) for index, log in enumerate(logs)}
        town.wait_until(lambda: all(watcher.highest == ends for watcher in town.watchers), "not read to the end")
        for worker in (*town.readers, *town.watchers):
            worker.stop()
    for reading in town.readings.values():
        assert not reading.faults
        for index, log in enumerate(logs):
            assert reading.seen[index] == {record.offset: record.value for record in log}
    assert "Traceback" not in broker.log, broker.log
    unknown = sum(each.metadata is not None and each.metadata.offset < 0 for each in town.settled())
    late = sum(each.error is not None for each in town.settled())
    latest = max(each.told_at - each.at for each in town.gamblers[0].sent)
    print(f"the longest wait of the hasty was {latest:.1f} s", end=", ")
    print(f"{unknown} acknowledged somewhere, {late} given up", end=", ")
    print(f"{kills} kills, {sum(map(len, logs))} records, {len(town.bookkeeper.committed)} in transactions")
