"""Log directories of a real Apache Kafka broker (Maven): ours reads and recovers them, and hands them back."""

import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from levada.records import BatchView, Codec, Record, build_batch, iter_batches
from levada.storage.loading import LogState, open_log
from levada.storage.log import Log
from levada.storage.log_config import LogConfig
from levada.storage.log_directory import LogDirectory
from levada.storage.producers import Origin
from levada.world.real_disk import RealDisk
from tests.integration.samples import CODECS, samples
from tests.interop.apache_broker import (
    HERE,
    INDEX_INTERVAL_BYTES,
    JARS,
    SEGMENT_BYTES,
    ApacheBroker,
)

WAIT_SECONDS = 30

CONFIG = LogConfig(segment_bytes=SEGMENT_BYTES, index_interval_bytes=INDEX_INTERVAL_BYTES)

CODEC_TOPICS = tuple(f"codec-{codec}" for codec in CODECS)
TOPICS = (*CODEC_TOPICS, "restamped", "idempotent", "transactions")

DERIVED = {".index", ".timeindex", ".txnindex", ".snapshot"}
"""What can be built anew from a .log file."""
EPOCHS = "leader-epoch-checkpoint"

pytestmark = pytest.mark.skipif(
    shutil.which("mvn") is None or shutil.which("java") is None,
    reason="Maven or Java is not installed, so Apache's broker was not tried",
)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class Ledger:
    """What was sent to each topic, by the offset that the broker acknowledged it with."""

    records: dict[str, dict[int, Record]] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)
    open_since: int = -1
    """Where the transaction begins that never ended."""
    failures: list[str] = field(default_factory=list)

    def send(
        self,
        producer: Producer,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        headers: tuple[tuple[str, bytes | None], ...] = (),
    ) -> list[int]:
        """Send a record; the list gets its offset when it is acknowledged."""
        offsets: list[int] = []

        def note(error: object, message: Message) -> None:
            if error is not None:
                self.failures.append(f"{topic}: {error}")
                return
            offset, timestamp_ms = message.offset(), message.timestamp()[1]
            assert offset is not None
            offsets.append(offset)
            self.records.setdefault(topic, {})[offset] = Record(offset, timestamp_ms, key, value, headers)

        # Old timestamps would let Apache and us forget these producers when the log is opened.
        producer.produce(topic, value, key, headers=list(headers), timestamp=now_ms(), on_delivery=note)
        producer.poll(0)
        return offsets


def producer_to(apache: ApacheBroker, **settings: Any) -> Producer:
    return Producer({"bootstrap.servers": apache.bootstrap, "message.max.bytes": 1_048_588, **settings})


def transactional_producer_to(apache: ApacheBroker, transactional_id: str) -> Producer:
    # The coordinator must not end a transaction that was left open while the tests run.
    settings = {"transactional.id": transactional_id, "transaction.timeout.ms": 900_000, "batch.num.messages": 4}
    producer = producer_to(apache, **settings)
    producer.init_transactions(WAIT_SECONDS)
    return producer


def flush(producer: Producer) -> None:
    assert producer.flush(WAIT_SECONDS) == 0


def create_topics(apache: ApacheBroker, *topics: NewTopic) -> None:
    admin = AdminClient({"bootstrap.servers": apache.bootstrap})
    for future in admin.create_topics(list(topics)).values():
        future.result(WAIT_SECONDS)


def send_samples(apache: ApacheBroker, ledger: Ledger, topic: str, codec: str, chance: random.Random) -> None:
    """The samples, whose random values fill a segment each time, and small batches between them."""
    producer = producer_to(apache, **{"compression.type": codec, "linger.ms": 5})
    for _ in range(3):
        for one in samples():
            ledger.send(producer, topic, one.value, one.key, one.headers)
        flush(producer)
        for number in range(200):
            ledger.send(producer, topic, chance.randbytes(chance.randrange(300)), b"%d" % number)
            if number % 5 == 0:
                flush(producer)
    flush(producer)


def send_idempotently(apache: ApacheBroker, ledger: Ledger, topic: str, chance: random.Random) -> None:
    """Batches of several producers, one after the other."""
    producers = [
        producer_to(apache, **{"enable.idempotence": True, "batch.num.messages": size}) for size in (1, 7, 100)
    ]
    for _ in range(6):
        for producer in producers:
            for _ in range(250):
                ledger.send(producer, topic, chance.randbytes(chance.randrange(1_500)))
            flush(producer)


def send_transactions(apache: ApacheBroker, ledger: Ledger, topic: str, chance: random.Random) -> None:
    """Two producers whose transactions overlap, a third without any between them, and one that never ends."""
    first, second = (transactional_producer_to(apache, f"{topic}-{number}") for number in (1, 2))
    plain = producer_to(apache, **{"enable.idempotence": True})
    for number in range(12):
        sent = []
        for producer in (first, second):
            producer.begin_transaction()
        for _ in range(20):
            for producer in (first, plain, second):
                offsets = ledger.send(producer, topic, chance.randbytes(chance.randrange(12_000)))
                sent.append((producer, offsets))
                if chance.random() < 0.3:
                    flush(producer)
        for producer in (first, second, plain):
            flush(producer)
        # Neither always ends first, and every pair of outcomes occurs.
        ends = [(first, number % 2 == 0), (second, number % 3 == 0)]
        for producer, is_aborted in ends if number % 4 < 2 else reversed(ends):
            if is_aborted:
                producer.abort_transaction(WAIT_SECONDS)
                ledger.aborted |= {offset for one, offsets in sent if one is producer for offset in offsets}
            else:
                producer.commit_transaction(WAIT_SECONDS)
    first.begin_transaction()
    offsets = ledger.send(first, topic, b"never ends")
    flush(first)
    ledger.open_since = offsets[0]
    ledger.send(plain, topic, b"behind it")
    flush(plain)


@dataclass
class Written:
    """What Apache left behind after a clean stop, and what it was sent."""

    directory: Path
    ledger: Ledger

    def copy(self, destination: Path) -> Path:
        shutil.copytree(self.directory, destination)
        return destination


@pytest.fixture(scope="module")
def jars() -> Path:
    if not JARS.exists():
        fetched = HERE / "build" / "broker-fetched"
        command = ["mvn", "-q", "-B", "-Pbroker", "dependency:copy-dependencies"]
        command += [f"-DoutputDirectory={fetched}", "-DexcludeArtifactIds=slf4j-nop"]
        result = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=600, check=False)
        assert result.returncode == 0, result.stdout
        fetched.rename(JARS)
    return JARS


@pytest.fixture(scope="module")
def apache(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheBroker]:
    """The broker of the module; it runs only while a test or a fixture wants it."""
    broker = ApacheBroker(tmp_path_factory.mktemp("apache") / "broker")
    try:
        yield broker
    finally:
        broker.kill()


@pytest.fixture(scope="module")
def written(apache: ApacheBroker, tmp_path_factory: pytest.TempPathFactory) -> Written:
    chance, ledger = random.Random(7), Ledger()
    apache.start()
    restamped = {"compression.type": "zstd", "message.timestamp.type": "LogAppendTime"}
    plain = [topic for topic in TOPICS if topic != "restamped"]
    create_topics(apache, NewTopic("restamped", 1, 1, config=restamped), *(NewTopic(topic, 1, 1) for topic in plain))
    for codec in CODECS:
        send_samples(apache, ledger, f"codec-{codec}", codec, chance)
    send_samples(apache, ledger, "restamped", "lz4", chance)
    send_idempotently(apache, ledger, "idempotent", chance)
    send_transactions(apache, ledger, "transactions", chance)
    apache.stop()
    assert ledger.failures == []
    directory = tmp_path_factory.mktemp("written") / "data"
    shutil.copytree(apache.data_directory, directory)
    return Written(directory, ledger)


def state_of(directory: Path, topic: str) -> LogState:
    """What Apache's checkpoints say, read by ours."""
    logs = LogDirectory(RealDisk(), str(directory), CONFIG, lambda _: 0)
    logs.begin()
    return logs.state_of(topic, 0)


def open_at(directory: Path, topic: str, state: LogState) -> Log:
    log, cuts = open_log(RealDisk(), str(directory / f"{topic}-0"), CONFIG, now_ms=now_ms(), state=state)
    assert cuts == []
    return log


def batches_of(log: Log) -> Iterator[BatchView]:
    """Every batch, found through the indexes in many small reads."""
    offset = log.start_offset
    while offset < log.end_offset:
        found = log.read(offset, 20_000, at_least_one_batch=True, upper_offset=log.end_offset)
        assert found is not None, offset
        for batch in iter_batches(found.file.read(found.position, found.size)):
            batch.validate()
            yield batch
            offset = batch.next_offset


def records_of(log: Log) -> dict[int, Record]:
    return {record.offset: record for batch in batches_of(log) if not batch.is_control for record in batch.records()}


def files_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def assert_same_files(ours: Path, theirs: Path, topic: str) -> None:
    mine, other = files_of(ours / f"{topic}-0"), files_of(theirs / f"{topic}-0")
    assert sorted(mine) == sorted(other)
    # Not compared as a whole, which would print megabytes.
    assert [name for name, data in other.items() if mine[name] != data] == []


def assert_led_anew(ours: Path, theirs: Path, topic: str) -> None:
    """The same files, but Apache was started once more, which begins an epoch at the end of the log."""
    mine, other = ((directory / f"{topic}-0" / EPOCHS).read_text().splitlines() for directory in (ours, theirs))
    assert (other[0], other[2:-1]) == (mine[0], mine[2:])
    shutil.copy(theirs / f"{topic}-0" / EPOCHS, ours / f"{topic}-0" / EPOCHS)
    assert_same_files(ours, theirs, topic)


def as_record(message: Any) -> Record:
    headers = tuple(message.headers() or ())
    return Record(message.offset(), message.timestamp()[1], message.key(), message.value(), headers)


def consume(apache: ApacheBroker, topic: str, end_offset: int) -> dict[int, Record]:
    """The committed records below an offset."""
    consumer = Consumer({"bootstrap.servers": apache.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    received: dict[int, Record] = {}
    deadline = time.monotonic() + WAIT_SECONDS
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while consumer.position([TopicPartition(topic, 0)])[0].offset < end_offset:
            assert time.monotonic() < deadline, f"{topic}: {len(received)} records"
            for message in consumer.consume(1_000, 0.2):
                assert message.error() is None, message.error()
                record = as_record(message)
                received[record.offset] = record
    finally:
        consumer.close()
    return received


@pytest.mark.parametrize("topic", TOPICS)
def test_a_log_that_apache_closed_reads_as_it_was_sent_and_stays_as_it_was(
    written: Written, topic: str, tmp_path: Path
) -> None:
    directory = written.copy(tmp_path / "data")
    state = state_of(directory, topic)
    assert state.was_clean
    log = open_at(directory, topic, state)
    sent = written.ledger.records[topic]
    assert len(log.segments) >= 3
    assert sum(len(segment.offset_index) for segment in log.segments) > 50
    assert records_of(log) == sent
    assert (log.start_offset, log.end_offset) == (0, max(sent) + 1)
    assert log.high_watermark == state.recovery_point == log.end_offset
    assert log.last_stable_offset == (written.ledger.open_since if topic == "transactions" else log.end_offset)
    log.close()
    assert_same_files(directory, written.directory, topic)


def test_aborted_transactions_are_those_that_were_aborted(written: Written, tmp_path: Path) -> None:
    directory = written.copy(tmp_path / "data")
    log = open_at(directory, "transactions", state_of(directory, "transactions"))
    found = log.aborted_transactions(0, log.end_offset)
    assert len(found) == 6 + 4
    ranges = [(one.producer_id, range(one.first_offset, one.last_offset + 1)) for one in found]
    aborted = {
        record.offset
        for batch in batches_of(log)
        if batch.is_transactional and not batch.is_control
        for record in batch.records()
        if any(batch.producer_id == producer_id and record.offset in offsets for producer_id, offsets in ranges)
    }
    assert aborted == written.ledger.aborted
    log.close()


@pytest.mark.parametrize("topic", TOPICS)
def test_what_is_built_anew_from_apaches_records_is_what_apache_built(
    written: Written, topic: str, tmp_path: Path
) -> None:
    directory = written.copy(tmp_path / "data")
    for path in (directory / f"{topic}-0").iterdir():
        if path.suffix in DERIVED:
            path.unlink()
    log = open_at(directory, topic, LogState())
    assert records_of(log) == written.ledger.records[topic]
    log.close()
    assert_same_files(directory, written.directory, topic)


def test_apache_goes_on_with_logs_that_ours_appended_to(apache: ApacheBroker, written: Written, tmp_path: Path) -> None:
    expected = append_to_all(apache.data_directory, written.ledger)
    ours = tmp_path / "data"
    shutil.copytree(apache.data_directory, ours)
    apache.start()
    for topic, records in expected.items():
        assert consume(apache, topic, max(records) + 1) == records, topic
    apache.stop()
    # It took every segment, index and snapshot as it was.
    assert "Skipping recovery of" in apache.log
    for topic in expected:
        # Each drops at its next start the snapshot of the stop before, which is neither at a segment nor at the end.
        open_at(ours, topic, LogState(was_clean=True)).close()
        assert_led_anew(ours, apache.data_directory, topic)


def append_to_all(directory: Path, ledger: Ledger) -> dict[str, dict[int, Record]]:
    """Open what Apache's broker wrote as ours does, and close it; returns what each appended topic now holds."""
    chance = random.Random(8)
    expected = {}
    logs = LogDirectory(RealDisk(), str(directory), CONFIG, lambda _: 0)
    logs.begin()
    assert logs.was_clean
    for path in directory.glob("*-0"):
        topic = path.name.removesuffix("-0")
        if topic == "__cluster_metadata":
            continue
        log, cuts = logs.open(topic, 0, now_ms())
        assert cuts == []
        if topic in CODEC_TOPICS or topic == "idempotent":
            expected[topic] = ledger.records[topic] | append(log, chance)
    logs.close(broker_epoch=1)
    return expected


def append(log: Log, chance: random.Random) -> dict[int, Record]:
    """Enough to begin new segments, by a producer that numbers its batches."""
    appended: dict[int, Record] = {}
    sequence = 0
    for number in range(150):
        records = [Record(0, now_ms(), b"ours", chance.randbytes(2_000)) for _ in range(chance.randrange(1, 20))]
        data = build_batch(
            [record[1:] for record in records],
            codec=Codec(number % len(CODECS)),
            producer_id=1_000_000,
            producer_epoch=0,
            base_sequence=sequence,
        )
        sequence += len(records)
        placed = log.append(BatchView(data), leader_epoch=log.epochs.latest, origin=Origin.CLIENT, now_ms=now_ms())
        for offset, record in enumerate(records, placed.base_offset):
            appended[offset] = record._replace(offset=offset)
    log.set_high_watermark(log.end_offset)
    return appended


def test_a_killed_apache_loses_nothing_that_it_acknowledged(
    apache: ApacheBroker, written: Written, tmp_path: Path
) -> None:
    ledger = Ledger()
    apache.start()
    create_topics(apache, NewTopic("killed", 1, 1))
    kill_while_producing(apache, ledger, "killed")
    acknowledged = ledger.records["killed"]
    assert len(acknowledged) > 2_000
    directory = tmp_path / "data"
    shutil.copytree(apache.data_directory, directory)
    state = state_of(directory, "killed")
    assert not state.was_clean
    # The last batch may be torn, which is cut off here and by Apache alike.
    log, _ = open_log(RealDisk(), str(directory / "killed-0"), CONFIG, now_ms=now_ms(), state=state)
    assert len(log.segments) >= 3
    recovered = records_of(log)
    assert {offset: recovered.get(offset) for offset in acknowledged} == acknowledged
    # A checkpoint of the high watermark is older than the transactions that have ended since.
    log.set_high_watermark(log.end_offset)
    assert log.producers.first_unstable_offset == ledger.open_since
    epochs = [(entry.epoch, entry.start_offset) for entry in log.epochs.entries]
    assert epochs == [(0, 0)]
    log.close()
    # Apache itself recovers the same directory to the same files.
    apache.start()
    apache.stop()
    assert_led_anew(directory, apache.data_directory, "killed")


def kill_while_producing(apache: ApacheBroker, ledger: Ledger, topic: str) -> None:
    """Ends Apache while requests are on their way, with a transaction open."""
    chance = random.Random(9)
    ended = transactional_producer_to(apache, "ended")
    for end in (ended.commit_transaction, ended.abort_transaction):
        ended.begin_transaction()
        ledger.send(ended, topic, b"in a transaction")
        flush(ended)
        end(WAIT_SECONDS)
    ended.begin_transaction()
    offsets = ledger.send(ended, topic, b"never ends")
    flush(ended)
    ledger.open_since = offsets[0]
    producer = producer_to(apache, **{"enable.idempotence": True, "batch.num.messages": 10})
    deadline = time.monotonic() + WAIT_SECONDS
    while len(ledger.records[topic]) < 3_000:
        assert time.monotonic() < deadline
        for _ in range(100):
            ledger.send(producer, topic, chance.randbytes(chance.randrange(2_000)))
    for _ in range(2_000):
        ledger.send(producer, topic, chance.randbytes(1_000))
    assert ledger.failures == []
    apache.kill()
    # Acknowledgements that are still on their way count; what was not sent must not reach the next broker.
    producer.poll(1)
    assert len(producer) > 0
    producer.purge()
    flush(producer)
    assert ledger.failures
