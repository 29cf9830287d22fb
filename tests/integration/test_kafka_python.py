"""kafka-python against a real broker."""

from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.brokers import BrokerProcess
from tests.integration.samples import CODECS, samples


def consume(broker: BrokerProcess, topic: str, count: int) -> list[Any]:
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=None, consumer_timeout_ms=20_000)
    try:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        received = []
        for record in consumer:
            received.append(record)
            if len(received) == count:
                break
        return received
    finally:
        consumer.close()


@pytest.mark.parametrize("acks", [0, 1, "all"])
@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent(broker: BrokerProcess, codec: str, acks: int | str) -> None:
    topic = f"kafka-python-{codec}-{acks}"
    sent = samples()
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap,
        compression_type=None if codec == "none" else codec,
        acks=acks,
        enable_idempotence=acks == "all",
        max_request_size=1_048_588,
    )
    try:
        futures = [
            producer.send(
                topic,
                key=one.key,
                value=one.value,
                # A header without a value is not something this client can write.
                headers=[(name, value or b"") for name, value in one.headers],
                timestamp_ms=one.timestamp_ms,
            )
            for one in sent
        ]
        producer.flush(timeout=20)
        for future in futures:
            future.get(timeout=20)
    finally:
        producer.close()
    received = consume(broker, topic, len(sent))
    assert [
        (record.key, record.value, tuple(tuple(header) for header in record.headers), record.timestamp)
        for record in received
    ] == [
        (one.key, one.value, tuple((name, value or b"") for name, value in one.headers), one.timestamp_ms)
        for one in sent
    ]
    assert [record.offset for record in received] == list(range(len(sent)))


def test_offsets_are_found_by_time_and_at_the_ends(broker: BrokerProcess) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for number in range(50):
        producer.send("kafka-python-times", b"v", timestamp_ms=1_700_000_000_000 + number * 10).get(timeout=20)
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=None)
    try:
        partition = TopicPartition("kafka-python-times", 0)
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 50}
        found = consumer.offsets_for_times({partition: 1_700_000_000_000 + 101})
        assert found[partition].offset == 11
    finally:
        consumer.close()
