"""SIGKILL again and again under idempotent producers: nothing acknowledged is lost, nothing is there twice."""

import os
import random
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from levada.storage.log_config import LogConfig
from levada.storage.log_directory import LogDirectory
from levada.world.real_disk import RealDisk
from tests.brokers import BrokerProcess
from tests.logs import T0, check_indexes, read_all

KILLS = 50 if os.environ.get("LEVADA_SOAK") == "1" else 10
TOPIC, PARTITIONS, PRODUCERS = "killed", 2, 3
WAIT_SECONDS = 60.0
SETTINGS = (f"num.partitions={PARTITIONS}", "log.segment.bytes=1048576", "log.index.interval.bytes=1024")


class Writer:
    """An idempotent producer on a thread of its own, which outlives the broker."""

    def __init__(self, broker: BrokerProcess, number: int) -> None:
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.failures: list[Any] = []
        self.sent: list[bytes] = []
        self._number = number
        self._stopping = threading.Event()
        self.is_resting = False
        self._producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "batch.num.messages": 20,
                "message.timeout.ms": int(WAIT_SECONDS * 1_000),
                "socket.timeout.ms": 5_000,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "log_level": 0,
                "error_cb": lambda _: None,
            }
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        """Send no more."""
        self._stopping.set()
        self._thread.join()

    def flush(self) -> None:
        """Wait until all that was sent is acknowledged."""
        assert self._producer.flush(WAIT_SECONDS) == 0

    def forget(self) -> None:
        """Give up what is under way."""
        self._producer.purge()
        self._producer.flush(1)

    def _run(self) -> None:
        chance = random.Random(self._number)
        while not self._stopping.is_set():
            value = b"%d-%d-" % (self._number, len(self.sent)) + bytes(chance.choice((10, 200, 2_000)))
            try:
                self._producer.produce(
                    TOPIC, value, partition=chance.randrange(PARTITIONS), on_delivery=self._on_delivery
                )
            except BufferError:
                self._producer.poll(0.05)
                continue
            self.sent.append(value)
            # A few hundred under way at most: memory stays small while the broker is dead.
            while (self.is_resting or len(self._producer) > 300) and not self._stopping.is_set():
                self._producer.poll(0.05)
            self._producer.poll(0)

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged[message.partition(), message.offset()] = message.value()
        else:
            self.failures.append(error)


class Writers:
    def __init__(self, broker: BrokerProcess) -> None:
        self._writers = [Writer(broker, number) for number in range(PRODUCERS)]

    def acknowledged(self) -> dict[tuple[int, int], bytes]:
        return {key: value for writer in self._writers for key, value in list(writer.acknowledged.items())}

    def rest(self, is_resting: bool) -> None:
        """Send nothing new, so that the log stays small while it is read; what is under way is repeated."""
        for writer in self._writers:
            writer.is_resting = is_resting

    def wait_for_more(self, count: int) -> None:
        """Until each producer has that many acknowledgements more than now."""
        before = [len(writer.acknowledged) for writer in self._writers]
        deadline = time.monotonic() + WAIT_SECONDS
        while any(len(writer.acknowledged) < had + count for writer, had in zip(self._writers, before)):
            assert time.monotonic() < deadline, [len(writer.acknowledged) for writer in self._writers]
            assert [writer.failures for writer in self._writers] == [[]] * PRODUCERS
            time.sleep(0.005)

    def __enter__(self) -> "Writers":
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._writers:
            writer.stop()
            writer.forget()

    def finish(self) -> list[bytes]:
        """All that was ever sent, once it is acknowledged."""
        for writer in self._writers:
            writer.stop()
            writer.flush()
        assert [writer.failures for writer in self._writers] == [[]] * PRODUCERS
        return [value for writer in self._writers for value in writer.sent]


def consume(broker: BrokerProcess, partition: int) -> list[bytes]:
    """All values of a partition up to its end now; offsets must have no gaps."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), WAIT_SECONDS)
        consumer.assign([TopicPartition(TOPIC, partition, 0)])
        values: list[bytes] = []
        deadline = time.monotonic() + WAIT_SECONDS
        while len(values) < end:
            assert time.monotonic() < deadline, f"{len(values)} of {end}"
            for message in consumer.consume(1_000, 0.2):
                assert message.error() is None, message.error()
                assert message.offset() == len(values)
                values.append(message.value() or b"")
        return values
    finally:
        consumer.close()


def check_served(broker: BrokerProcess, acknowledged: dict[tuple[int, int], bytes]) -> list[bytes]:
    """What a consumer gets: every acknowledged record where it was acknowledged, and none twice."""
    logs = [consume(broker, partition) for partition in range(PARTITIONS)]
    for (partition, offset), value in acknowledged.items():
        assert logs[partition][offset] == value, (partition, offset, value[:20])
    values = [value for log in logs for value in log]
    assert len(set(values)) == len(values)
    return values


def check_files(directory: Path, copy: Path, acknowledged: dict[tuple[int, int], bytes]) -> None:
    """What recovery makes of a copy of the dead broker's files: the same records, and indexes that are true."""
    shutil.copytree(directory, copy)
    logs = LogDirectory(RealDisk(), str(copy), LogConfig(segment_bytes=1 << 20, index_interval_bytes=1024), lambda _: 0)
    logs.begin()
    assert not logs.was_clean
    for partition in range(PARTITIONS):
        log, cuts = logs.open(TOPIC, partition, T0)
        # A kill takes no written byte, at most the end of the write it fell into.
        assert len(cuts) <= 1
        records = dict(read_all(log))
        for (one, offset), value in acknowledged.items():
            assert one != partition or records[offset] == value
        log.close()
        check_indexes(log.directory)
    shutil.rmtree(copy)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "data", *SETTINGS).start()
    try:
        yield process
    finally:
        process.kill()


def test_nothing_acknowledged_is_lost_or_doubled_by_kills(broker: BrokerProcess, tmp_path: Path) -> None:
    chance = random.Random(1)
    with Writers(broker) as writers:
        for number in range(KILLS):
            writers.wait_for_more(chance.randrange(20, 400))
            broker.kill()
            writers.rest(True)
            acknowledged = writers.acknowledged()
            check_files(broker.data_directory, tmp_path / f"copy-{number}", acknowledged)
            broker.start()
            check_served(broker, acknowledged)
            writers.rest(False)
        writers.wait_for_more(100)
        sent = writers.finish()
    served = check_served(broker, writers.acknowledged())
    assert sorted(served) == sorted(sent)
    assert "Traceback" not in broker.log, broker.log
    assert broker.stop() == 0
    assert sum(check_indexes(broker.data_directory / f"{TOPIC}-{number}") for number in range(PARTITIONS)) > 0
