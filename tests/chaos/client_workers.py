"""Our blocking clients at work in threads of their own, with books of all they were told."""

import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from levada import Consumer, Producer
from levada.client.errors import CommitFailed, KafkaError, RebalanceInProgress, TimedOut
from levada.client.producer import Handle
from levada.client.types import RecordMetadata, TopicPartition

FAST = {
    "retry_backoff_ms": 20,
    "retry_backoff_max_ms": 100,
    "reconnect_backoff_ms": 20,
    "reconnect_backoff_max_ms": 100,
}
MAX_UNDER_WAY = 400
PAUSE_SECONDS = 0.002


class Worker(ABC):
    """A thread that goes round until it is told to stop; what it raises is told by `stop`."""

    def __init__(self, name: str) -> None:
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    @abstractmethod
    def turn(self) -> None: ...

    def check(self) -> None:
        if self._error is not None:
            raise AssertionError(f"{self._thread.name} failed") from self._error

    def stop(self, seconds: float = 60.0) -> None:
        self._stopping.set()
        self._thread.join(seconds)
        assert not self._thread.is_alive(), f"{self._thread.name} hangs"
        self.check()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self.turn()
        except BaseException as error:
            self._error = error


class Pulse(Worker):
    """Notes when this whole process stood still: on a busy machine, or while garbage is collected."""

    def __init__(self) -> None:
        super().__init__("pulse")
        self._gaps: list[tuple[float, float]] = []
        self._last = time.monotonic()

    def turn(self) -> None:
        time.sleep(0.01)
        before, self._last = self._last, time.monotonic()
        if self._last - before > 0.1:
            self._gaps.append((before, self._last))

    def stood_still(self, start: float, end: float) -> float:
        """For how long, in this time."""
        return sum(max(min(end, last) - max(start, first), 0) for first, last in self._gaps)


@dataclass
class Sent:
    """One record that was sent, and what was told of it."""

    value: bytes
    partition: int
    on_acknowledged: Callable[[], None]
    handle: Handle | None = None
    at: float = 0.0
    told_at: float = 0.0
    metadata: RecordMetadata | None = None
    error: KafkaError | None = None

    def tell(self, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        assert not self.told_at, "told twice"
        self.told_at, self.metadata, self.error = time.monotonic(), metadata, error
        if metadata is not None:
            self.on_acknowledged()


class Writer(Worker):
    """Sends numbered records to partitions at random; several may share one producer."""

    def __init__(self, producer: Producer, topic: str, partitions: int, number: int) -> None:
        super().__init__(f"writer {number}")
        self.sent: list[Sent] = []
        self._producer = producer
        self._topic = topic
        self._partitions = partitions
        self._number = number
        self._chance = random.Random(number)
        self._settled = 0
        self.acknowledged = 0

    def count(self) -> None:
        self.acknowledged += 1

    def turn(self) -> None:
        while self._settled < len(self.sent) and self.sent[self._settled].told_at:
            self._settled += 1
        if len(self.sent) - self._settled > MAX_UNDER_WAY:
            time.sleep(PAUSE_SECONDS)
            return
        value = b"%d-%d-" % (self._number, len(self.sent)) + bytes(self._chance.choice((10, 100, 1_000)))
        sent = Sent(value, self._chance.randrange(self._partitions), self.count)
        self.sent.append(sent)
        sent.handle = self._producer.send(self._topic, value, partition=sent.partition, on_delivery=sent.tell)
        sent.at = time.monotonic()
        if not len(self.sent) % 10:
            time.sleep(PAUSE_SECONDS)


class Bookkeeper(Worker):
    """A transactional producer: some records on two partitions in each transaction, one in five is aborted."""

    def __init__(self, bootstrap: str, topic: str, **options: Any) -> None:
        super().__init__("bookkeeper")
        self.committed: list[bytes] = []
        self._topic = topic
        self._chance = random.Random(99)
        self._count = 0
        self.producer = Producer(bootstrap, transactional_id=topic, transaction_timeout_ms=60_000, **options)
        self.producer.init_transactions(60)

    def turn(self) -> None:
        self._count += 1
        values = [b"t%d-%d" % (self._count, number) for number in range(self._chance.randrange(1, 20))]
        self.producer.begin_transaction()
        try:
            for number, value in enumerate(values):
                self.producer.send(self._topic, value, partition=number % 2)
            if not self._count % 5:
                self._end(self.producer.abort_transaction)
                return
            self._end(self.producer.commit_transaction)
            self.committed += values
        except KafkaError as error:
            # A batch was lost, so the transaction can only be aborted.
            if error.fatal:
                raise
            self._end(self.producer.abort_transaction)
        time.sleep(PAUSE_SECONDS)

    def _end(self, call: Any) -> None:
        """As long as the answer does not come, the outcome is unknown, and the same call is to be repeated."""
        while True:
            try:
                call(5)
            except TimedOut:
                continue
            return


@dataclass
class Reading:
    """What one group has seen, of all its members."""

    seen: dict[int, dict[int, bytes]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    commits: int = 0

    def saw(self, partition: int, offset: int, value: bytes, expected: int | None) -> None:
        offsets = self.seen.setdefault(partition, {})
        if expected is not None and offset != expected:
            self.faults.append(f"partition {partition}: offset {offset} where {expected} was due")
        if expected is None and offset and offset - 1 not in offsets:
            self.faults.append(f"partition {partition}: began at {offset}, and no member had read what is before")
        if offsets.setdefault(offset, value) != value:
            self.faults.append(f"partition {partition}: two records at offset {offset}")


class Reader(Worker):
    """A member of a group that commits what it has read, after each poll."""

    def __init__(self, bootstrap: str, group: str, topic: str, reading: Reading, number: int, **options: Any) -> None:
        super().__init__(f"reader {number} of {group}")
        self._consumer = Consumer(
            bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False, **options
        )
        self._consumer.subscribe([topic], listener=self)
        self._reading = reading
        self._expected: dict[int, int] = {}

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self._expected.pop(partition.partition, None)

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.on_partitions_assigned(partitions)

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.on_partitions_assigned(partitions)

    def turn(self) -> None:
        records = self._consumer.poll(0.2)
        for record in records:
            expected = self._expected.get(record.partition)
            self._reading.saw(record.partition, record.offset, record.value or b"", expected)
            self._expected[record.partition] = record.offset + 1
        if records:
            try:
                self._consumer.commit(timeout=20)
                self._reading.commits += 1
            except (CommitFailed, RebalanceInProgress):
                # Another member goes on from where the group was.
                return

    def close(self) -> None:
        self._consumer.close(5)


class Watcher(Worker):
    """Asks again and again what a group has committed: that never goes back."""

    def __init__(self, bootstrap: str, group: str, partitions: list[TopicPartition], **options: Any) -> None:
        super().__init__(f"watcher of {group}")
        self.highest = dict.fromkeys(partitions, 0)
        self._consumer = Consumer(bootstrap, group_id=group, **options)

    def turn(self) -> None:
        try:
            found = self._consumer.committed(list(self.highest), timeout=20)
        except TimedOut:
            return
        for partition, position in found.items():
            offset = 0 if position is None else position.offset
            assert offset >= self.highest[partition], (partition, offset, self.highest[partition])
            self.highest[partition] = offset
        time.sleep(0.1)

    def close(self) -> None:
        self._consumer.close(5)
