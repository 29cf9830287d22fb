"""confluent-kafka (librdkafka) against a real broker."""

import time
import uuid
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.brokers import BrokerProcess
from tests.integration.samples import CODECS, samples

WAIT_SECONDS = 20


def produce(broker: BrokerProcess, topic: str, messages: list[dict[str, Any]], **settings: Any) -> None:
    failures: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.max.bytes": 1_048_588, **settings})
    for message in messages:
        producer.produce(topic, **message, on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(WAIT_SECONDS) == 0
    assert failures == []


def consume(broker: BrokerProcess, topic: str, count: int, partition: int = 0, offset: int = 0) -> list[Any]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, partition, offset)])
        received: list[Any] = []
        deadline = time.monotonic() + WAIT_SECONDS
        while len(received) < count and time.monotonic() < deadline:
            for message in consumer.consume(count - len(received), 0.2):
                assert message.error() is None, message.error()
                received.append(message)
        return received
    finally:
        consumer.close()


@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent(broker: BrokerProcess, codec: str, acks: str) -> None:
    topic = f"confluent-{codec}-{acks}"
    sent = samples()
    messages = [
        {"key": one.key, "value": one.value, "headers": list(one.headers), "timestamp": one.timestamp_ms}
        for one in sent
    ]
    produce(broker, topic, messages, **{"compression.type": codec, "acks": acks})
    received = consume(broker, topic, len(sent))
    assert [
        (message.key(), message.value(), tuple(message.headers() or ()), message.timestamp()[1]) for message in received
    ] == [(one.key, one.value, one.headers, one.timestamp_ms) for one in sent]
    assert [message.offset() for message in received] == list(range(len(sent)))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_are_stored_as_the_client_compressed_them(broker: BrokerProcess, codec: str) -> None:
    topic = f"stored-{codec}"
    produce(broker, topic, [{"value": b"same " * 1_000}] * 50, **{"compression.type": codec, "linger.ms": 100})
    stored = (broker.data_directory / f"{topic}-0" / f"{0:020d}.log").read_bytes()
    assert int.from_bytes(stored[21:23], "big") & 7 == CODECS.index(codec)
    assert len(stored) < 50 * 5_000 / 10


def test_an_idempotent_producer_keeps_order(broker: BrokerProcess) -> None:
    messages = [{"value": str(number).encode()} for number in range(20_000)]
    produce(broker, "idempotent", messages, **{"enable.idempotence": True, "batch.num.messages": 100})
    received = consume(broker, "idempotent", len(messages))
    assert [message.value() for message in received] == [message["value"] for message in messages]


def test_offsets_are_found_by_time_and_at_the_ends(broker: BrokerProcess) -> None:
    messages = [{"value": b"v", "timestamp": 1_700_000_000_000 + number * 10} for number in range(100)]
    produce(broker, "times", messages)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused"})
    try:
        assert consumer.get_watermark_offsets(TopicPartition("times", 0), WAIT_SECONDS) == (0, 100)

        def first_since(timestamp_ms: int) -> int:
            (found,) = consumer.offsets_for_times([TopicPartition("times", 0, timestamp_ms)], WAIT_SECONDS)
            return int(found.offset)

        assert first_since(1_700_000_000_000) == 0
        assert first_since(1_700_000_000_000 + 501) == 51
        assert first_since(1_700_000_000_000 + 990) == 99
        assert first_since(1_700_000_000_000 + 991) == -1
    finally:
        consumer.close()


def test_a_waiting_consumer_gets_a_new_record_at_once(broker: BrokerProcess) -> None:
    produce(broker, "tail", [{"value": b"first"}])
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "unused",
            "fetch.wait.max.ms": 15_000,
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.assign([TopicPartition("tail", 0, 1)])
        assert consumer.poll(0.5) is None
        produce(broker, "tail", [{"value": b"second"}])
        # Well below the 15 seconds that the fetch may wait: it was woken by the append.
        message = consumer.poll(5)
        assert message is not None
        assert message.value() == b"second"
    finally:
        consumer.close()


def test_topics_are_created_and_refused_as_kafka_does(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    def create(topic: NewTopic) -> int | None:
        (future,) = admin.create_topics([topic]).values()
        try:
            future.result(WAIT_SECONDS)
        except KafkaException as error:
            return int(error.args[0].code())
        return None

    assert create(NewTopic("three", num_partitions=3, replication_factor=1)) is None
    assert len(admin.list_topics(timeout=WAIT_SECONDS).topics["three"].partitions) == 3
    assert create(NewTopic("three", num_partitions=3, replication_factor=1)) == KafkaError.TOPIC_ALREADY_EXISTS
    assert create(NewTopic("no/slash", num_partitions=1)) == KafkaError.TOPIC_EXCEPTION
    assert create(NewTopic("none", num_partitions=0)) == KafkaError.INVALID_PARTITIONS
    assert create(NewTopic("two", num_partitions=1, replication_factor=2)) == KafkaError.INVALID_REPLICATION_FACTOR
    assert create(NewTopic("a.b", num_partitions=1)) is None
    assert create(NewTopic("a_b", num_partitions=1)) == KafkaError.TOPIC_EXCEPTION


def test_a_message_above_the_limit_is_refused(broker: BrokerProcess) -> None:
    errors: list[int] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.max.bytes": 3_000_000})
    producer.produce(
        "large", bytes(2_000_000), on_delivery=lambda error, _: errors.append(error.code() if error else 0)
    )
    producer.flush(WAIT_SECONDS)
    assert errors == [KafkaError.MSG_SIZE_TOO_LARGE]


def test_everything_acknowledged_survives_sigkill(own_broker: BrokerProcess) -> None:
    topic = f"survivor-{uuid.uuid4().hex}"
    messages = [{"value": str(number).encode()} for number in range(5_000)]
    produce(own_broker, topic, messages, acks="all")
    own_broker.kill()
    own_broker.start()
    received = consume(own_broker, topic, len(messages))
    assert [message.value() for message in received] == [message["value"] for message in messages]
    produce(own_broker, topic, [{"value": b"after"}])
    assert consume(own_broker, topic, 1, offset=5_000)[0].value() == b"after"
