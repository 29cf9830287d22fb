"""A real broker with several log directories, clients that go on through everything, and what must be true of both."""

import itertools
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from levada import Admin, Consumer, Producer
from levada.client.admin import Replica
from levada.client.types import TopicPartition
from tests.brokers import BrokerProcess
from tests.tools.stages import wait_until

DIRECTORIES = ("first", "second", "third")
OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
SETTINGS = (
    "log.segment.bytes=1048576",
    "log.segment.delete.delay.ms=100",
    "log.flush.offset.checkpoint.interval.ms=200",
    "offsets.topic.num.partitions=1",
    "offsets.topic.segment.bytes=1048576",
    "transaction.state.log.num.partitions=1",
    "transaction.state.log.segment.bytes=1048576",
    "group.initial.rebalance.delay.ms=0",
)
PATIENT = {"delivery_timeout_ms": 60_000, "retry_backoff_ms": 20, "reconnect_backoff_max_ms": 100}
PACE_SECONDS = 0.03
"""What clients wait between two rounds, so that a copy can catch up with them."""
_LEFT_BY_MOVE = re.compile(r".+-\d+\.[0-9a-f]{32}-(future|delete)")


def several(root: Path, *settings: str, names: tuple[str, ...] = DIRECTORIES) -> BrokerProcess:
    """A broker with a directory of each name below `root`, its log beside them."""
    first, *others = [root / name for name in names]
    broker = BrokerProcess(first, *SETTINGS, *settings, more_directories=others)
    broker.log_path = root / "broker.log"
    return broker


def places(root: Path, names: tuple[str, ...] = DIRECTORIES) -> dict[tuple[str, int], list[str]]:
    """In which directories each partition's log lies."""
    found: dict[tuple[str, int], list[str]] = {}
    for name in names:
        for path in (root / name).iterdir():
            topic, dash, index = path.name.rpartition("-")
            if path.is_dir() and dash and index.isdigit():
                found.setdefault((topic, int(index)), []).append(name)
    return found


def leftovers(root: Path, names: tuple[str, ...] = DIRECTORIES) -> list[str]:
    """Copies that are not done, old logs that are not gone, and notes that a log has moved."""
    paths = [path for name in names for path in (root / name).iterdir()]
    return [
        *(f"{path.parent.name}/{path.name}" for path in paths if _LEFT_BY_MOVE.fullmatch(path.name)),
        *(str(path) for one in paths if one.is_dir() for path in one.iterdir() if path.name.startswith("moved")),
    ]


def move(admin: Admin, partitions: dict[tuple[str, int], Path]) -> None:
    admin.alter_replica_log_dirs({Replica(*key, 1): str(path) for key, path in partitions.items()}).raise_any()


def is_idle(admin: Admin) -> bool:
    """Whether no replica is on its way, and each is described in one place."""
    described = [one for directory in admin.describe_log_dirs([1])[1].values() for one in directory.replicas.items()]
    counts = [partition for partition, _ in described]
    return not any(replica.is_future for _, replica in described) and len(set(counts)) == len(counts)


class Thread(ABC):
    """Something that goes on until it is stopped; its failure is raised then."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._may_go_on = threading.Event()
        self._may_go_on.set()
        self._is_waiting = False
        self._failure: BaseException | None = None
        self.rounds = 0
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._may_go_on.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    @property
    def has_failed(self) -> bool:
        return self._failure is not None

    def pause(self) -> None:
        """Nothing of it is under way when this returns."""
        self._may_go_on.clear()
        wait_until(lambda: self._is_waiting or not self._thread.is_alive(), 60)

    def resume(self) -> None:
        self._may_go_on.set()

    @abstractmethod
    def turn(self) -> None: ...

    def close(self) -> None:
        """Most have nothing to let go of."""
        return

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._is_waiting = not self._may_go_on.is_set()
                self._may_go_on.wait()
                self._is_waiting = False
                self.turn()
                self.rounds += 1
        except BaseException as error:
            self._failure = error
        finally:
            self.close()


T = TypeVar("T", bound=Thread)


@contextmanager
def running(thread: T) -> Iterator[T]:
    thread.start()
    try:
        yield thread
    finally:
        thread.stop()


class Writer(Thread):
    """Counts up in one partition, with an idempotent producer."""

    def __init__(self, bootstrap: str, topic: str, partition: int) -> None:
        super().__init__()
        self.partition = TopicPartition(topic, partition)
        self.acknowledged: dict[int, bytes] = {}
        self.written = 0
        self._producer = Producer(bootstrap, linger_ms=1, **PATIENT)

    def turn(self) -> None:
        values = [b"%d " % number + bytes(900) for number in range(self.written, self.written + 40)]
        self.written += len(values)
        handles = [
            self._producer.send(self.partition.topic, value, partition=self.partition.partition) for value in values
        ]
        for value, handle in zip(values, handles):
            self.acknowledged[handle.result(60).offset] = value
        time.sleep(PACE_SECONDS)

    def close(self) -> None:
        self._producer.close()

    def check(self, found: dict[int, bytes], start_offset: int) -> None:
        """All that was acknowledged is there once, in its order, and nothing else; read while this rests."""
        expected = {offset: value for offset, value in self.acknowledged.items() if offset >= start_offset}
        assert list(found) == list(expected)
        assert found == expected
        numbers = [int(value.split()[0]) for value in found.values()]
        assert numbers == list(range(self.written - len(numbers), self.written))


class Transactor(Thread):
    """Every second transaction is aborted."""

    def __init__(self, bootstrap: str, topic: str, partition: int) -> None:
        super().__init__()
        self.partition = TopicPartition(topic, partition)
        self.committed: list[bytes] = []
        self._numbers = itertools.count()
        self._producer = Producer(bootstrap, transactional_id="chaos", max_block_ms=60_000, **PATIENT)

    def turn(self) -> None:
        if not self.rounds:
            self._producer.init_transactions()
        self._producer.begin_transaction()
        values = [b"%d " % next(self._numbers) + bytes(300) for _ in range(10)]
        for value in values:
            self._producer.send(self.partition.topic, value, partition=self.partition.partition)
        if self.rounds % 2:
            self._producer.abort_transaction()
        else:
            self._producer.commit_transaction()
            self.committed += values
        time.sleep(PACE_SECONDS)

    def close(self) -> None:
        self._producer.close()


class Committer(Thread):
    """A group that commits one offset after the other."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__()
        self.partition = TopicPartition(topic, 0)
        self.committed = 0
        self._consumer = Consumer(bootstrap, group_id="chaos", enable_auto_commit=False, default_api_timeout_ms=60_000)
        self._consumer.assign([self.partition])

    def turn(self) -> None:
        self._consumer.commit({self.partition: self.committed + 1})
        self.committed += 1
        time.sleep(PACE_SECONDS)

    def close(self) -> None:
        self._consumer.close()

    def check(self, bootstrap: str) -> None:
        with Consumer(bootstrap, group_id="chaos", enable_auto_commit=False) as consumer:
            found = consumer.committed([self.partition])[self.partition]
        assert found is not None
        assert found.offset == self.committed


def read_all(bootstrap: str, partition: TopicPartition, isolation_level: str = "read_uncommitted") -> dict[int, bytes]:
    """Every record of a partition, by offset."""
    found: dict[int, bytes] = {}
    options = {"auto_offset_reset": "earliest", "isolation_level": isolation_level}
    with Consumer(bootstrap, **options) as consumer:
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        while consumer.position(partition) < end:
            for record in consumer.poll(1.0):
                assert record.offset not in found
                found[record.offset] = record.value or b""
    return found


def wait_for_rounds(threads: list[Thread], count: int = 3) -> None:
    """Until each has done something more."""
    before = [thread.rounds for thread in threads]
    wait_until(lambda: all(one.rounds >= had + count or one.has_failed for one, had in zip(threads, before)), 60)
