"""aiokafka against a real broker."""

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.brokers import BrokerProcess
from tests.integration.samples import CODECS, samples

WAIT_SECONDS = 20


async def consume(broker: BrokerProcess, topic: str, count: int) -> list[Any]:
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=None)
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, 0)])
        await consumer.seek_to_beginning()
        return [await asyncio.wait_for(consumer.getone(), WAIT_SECONDS) for _ in range(count)]
    finally:
        await consumer.stop()


@pytest.mark.parametrize("acks", [0, 1, "all"])
@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent(broker: BrokerProcess, codec: str, acks: int | str) -> None:
    topic = f"aiokafka-{codec}-{acks}"
    # This client counts a batch before it is compressed, and refuses null headers.
    sent = [one for one in samples() if all(value is not None for _, value in one.headers)]

    async def exchange() -> list[Any]:
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap,
            compression_type=None if codec == "none" else codec,
            acks=acks,
            max_request_size=1_048_588,
        )
        await producer.start()
        try:
            for one in sent:
                await producer.send_and_wait(
                    topic, one.value, key=one.key, headers=list(one.headers), timestamp_ms=one.timestamp_ms
                )
        finally:
            await producer.stop()
        return await consume(broker, topic, len(sent))

    received = asyncio.run(exchange())
    assert [(record.key, record.value, tuple(record.headers), record.timestamp) for record in received] == [
        (one.key, one.value, one.headers, one.timestamp_ms) for one in sent
    ]


def test_an_idempotent_producer_keeps_order(broker: BrokerProcess) -> None:
    async def exchange() -> list[Any]:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, enable_idempotence=True)
        await producer.start()
        try:
            waiting = [await producer.send("aiokafka-idempotent", str(number).encode()) for number in range(2_000)]
            for one in waiting:
                await one
        finally:
            await producer.stop()
        return await consume(broker, "aiokafka-idempotent", 2_000)

    received = asyncio.run(exchange())
    assert [record.value for record in received] == [str(number).encode() for number in range(2_000)]
