"""Compacted topics with a real broker and real clients: the last of each key stays, at its offset."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer as LibrdkafkaConsumer
from confluent_kafka import TopicPartition as LibrdkafkaPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPythonPartition

from levada import Admin, Consumer, Producer
from levada.client.admin import NewTopic
from levada.client.types import OffsetAndMetadata, TopicPartition
from tests.brokers import BrokerProcess, sound
from tests.cleaning import cleaned_until, is_clean
from tests.tools.stages import wait_until

EAGER = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "20000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "100",
}
KEYS = 10


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = ("log.cleaner.backoff.ms=100", "offsets.topic.segment.bytes=1048576", "offsets.topic.num.partitions=1")
    with sound(BrokerProcess(tmp_path_factory.mktemp("compaction") / "data", *settings)) as process:
        yield process


def create(broker: BrokerProcess, topic: str, **configs: str) -> None:
    wanted = {**EAGER, **{name.replace("_", "."): value for name, value in configs.items()}}
    with Admin(broker.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 1, configs=wanted)]).raise_any()


def fill(broker: BrokerProcess, topic: str, count: int, value: Callable[[int], bytes | None]) -> None:
    with Producer(broker.bootstrap, batch_size=1_000, linger_ms=0) as producer:
        for number in range(count):
            producer.send(topic, value(number), key=b"key-%d" % (number % KEYS), partition=0)
            if number % 20 == 19:
                producer.flush()


def read_all(broker: BrokerProcess, topic: str, offset: int = 0) -> list[tuple[int, bytes | None, bytes | None]]:
    partition = TopicPartition(topic, 0)
    with Consumer(broker.bootstrap, auto_offset_reset="none") as consumer:
        consumer.assign([partition])
        consumer.seek(partition, offset)
        end = consumer.end_offsets([partition])[partition]
        found = []
        while consumer.position(partition) < end:
            found += [(one.offset, one.key, one.value) for one in consumer.poll(1.0)]
    return found


def segments(broker: BrokerProcess, topic: str) -> list[Path]:
    return sorted((broker.data_directory / f"{topic}-0").glob("*.log"))


def test_only_the_last_of_each_key_stays_and_keeps_its_offset(broker: BrokerProcess) -> None:
    create(broker, "last")
    fill(broker, "last", 2_000, lambda number: b"value-%d" % number + bytes(100))
    wait_until(lambda: is_clean(broker.data_directory, "last"))
    found = read_all(broker, "last")
    clean_end = cleaned_until(broker.data_directory, "last")
    below = [one for one in found if one[0] < clean_end]
    assert len(below) <= KEYS + 1
    assert all(value is not None and value.startswith(b"value-%d" % offset) for offset, _, value in found)
    newest = {key: offset for offset, key, _ in found}
    assert newest == {b"key-%d" % (number % KEYS): number for number in range(1_990, 2_000)}
    assert [one[0] for one in found] == sorted({one[0] for one in found})


def test_scenario_6_a_fetch_of_an_offset_that_is_gone_begins_with_the_next(broker: BrokerProcess) -> None:
    create(broker, "holes")
    fill(broker, "holes", 1_000, lambda number: bytes(100))
    wait_until(lambda: is_clean(broker.data_directory, "holes"))
    offsets = [one[0] for one in read_all(broker, "holes")]
    gone = next(offset for offset in range(offsets[-1]) if offset not in offsets)
    following = next(offset for offset in offsets if offset > gone)
    assert read_all(broker, "holes", gone)[0][0] == following
    librdkafka = LibrdkafkaConsumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "g", "enable.auto.commit": False}
    )
    librdkafka.assign([LibrdkafkaPartition("holes", 0, gone)])
    message = librdkafka.poll(10)
    librdkafka.close()
    assert message is not None
    assert message.error() is None
    assert message.offset() == following
    kafka_python = KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="none")
    kafka_python.assign([KafkaPythonPartition("holes", 0)])
    kafka_python.seek(KafkaPythonPartition("holes", 0), gone)
    assert next(kafka_python).offset == following
    kafka_python.close()


def test_a_tombstone_goes_and_takes_its_key_with_it(broker: BrokerProcess) -> None:
    create(broker, "tombs")
    fill(broker, "tombs", 200, lambda number: bytes(100))
    fill(broker, "tombs", KEYS, lambda number: None)
    # What follows closes the segment, and the next cleaning finds the tombstones older than they may be.
    with Producer(broker.bootstrap, batch_size=1_000, linger_ms=0) as producer:

        def is_gone() -> bool:
            for _ in range(20):
                producer.send("tombs", bytes(500), key=b"other", partition=0)
                producer.flush()
            return all(key == b"other" for _, key, _ in read_all(broker, "tombs"))

        wait_until(is_gone)


def test_committed_offsets_stay_small(broker: BrokerProcess) -> None:
    create(broker, "plain", cleanup_policy="delete")
    partition = TopicPartition("plain", 0)
    with Admin(broker.bootstrap) as admin:

        def has_been_cleaned() -> bool:
            for number in range(200):
                metadata = "m" * 1_000
                admin.alter_group_offsets("group", {partition: OffsetAndMetadata(number, metadata)}).raise_any()
            return cleaned_until(broker.data_directory, "__consumer_offsets") > 0

        wait_until(has_been_cleaned, 60)
        committed = admin.list_group_offsets(["group"])["group"][partition]
        assert committed is not None
        assert committed.offset == 199
    sizes = sum(path.stat().st_size for path in segments(broker, "__consumer_offsets"))
    assert sizes < 3 * 1_048_576


def test_a_compacted_topic_is_the_same_after_a_crash(tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path / "data", "log.cleaner.backoff.ms=100").start()
    try:
        create(process, "crashed")
        fill(process, "crashed", 1_000, lambda number: b"value-%d" % number + bytes(100))
        wait_until(lambda: is_clean(process.data_directory, "crashed"))
        newest = {key: value for _, key, value in read_all(process, "crashed")}
        process.kill()
        process.start()
        assert {key: value for _, key, value in read_all(process, "crashed")} == newest
        names = [path.name for path in (process.data_directory / "crashed-0").iterdir()]
        assert [name for name in names if name.endswith((".cleaned", ".swap"))] == []
    finally:
        process.kill()
