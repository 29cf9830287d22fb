"""Whatever speaks Kafka's protocol can connect to the fixture's broker."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from kafka import KafkaConsumer, KafkaProducer

from levada import Consumer, Producer, aio
from levada.testing import EmbeddedBroker

WAIT_SECONDS = 30


def test_confluent_kafka(levada_broker_session: EmbeddedBroker) -> None:
    bootstrap = {"bootstrap.servers": levada_broker_session.bootstrap}
    producer = ConfluentProducer(bootstrap)
    producer.produce("confluent", b"value")
    assert producer.flush(WAIT_SECONDS) == 0
    consumer = ConfluentConsumer({**bootstrap, "group.id": "confluent", "auto.offset.reset": "earliest"})
    consumer.subscribe(["confluent"])
    message = consumer.poll(WAIT_SECONDS)
    consumer.close()
    assert message is not None
    assert message.value() == b"value"


def test_kafka_python(levada_broker_session: EmbeddedBroker) -> None:
    bootstrap = levada_broker_session.bootstrap
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    producer.send("kafka-python", b"value").get(WAIT_SECONDS)
    producer.close()
    consumer = KafkaConsumer(
        "kafka-python", bootstrap_servers=bootstrap, group_id="kafka-python", auto_offset_reset="earliest"
    )
    record = next(consumer)
    consumer.close()
    assert record.value == b"value"


def test_aiokafka(levada_broker_session: EmbeddedBroker) -> None:
    async def exchange() -> bytes:
        bootstrap = levada_broker_session.bootstrap
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            await producer.send_and_wait("aiokafka", b"value")
        options = {"bootstrap_servers": bootstrap, "group_id": "aiokafka", "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer("aiokafka", **options) as consumer:
            record = await asyncio.wait_for(consumer.getone(), WAIT_SECONDS)
            return bytes(record.value)

    assert asyncio.run(exchange()) == b"value"


def test_our_blocking_clients(levada_broker_session: EmbeddedBroker) -> None:
    bootstrap = levada_broker_session.bootstrap
    with Producer(bootstrap) as producer:
        producer.send("blocking", b"value").result()
    with Consumer(bootstrap, group_id="blocking", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["blocking"])
        assert [record.value for record in consumer.poll(WAIT_SECONDS)] == [b"value"]


def test_our_asyncio_clients(levada_broker_session: EmbeddedBroker) -> None:
    async def exchange() -> list[bytes | None]:
        bootstrap = levada_broker_session.bootstrap
        async with aio.Producer(bootstrap) as producer:
            await (await producer.send("asyncio", b"value"))
        async with aio.Consumer(bootstrap, group_id="asyncio", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["asyncio"])
            return [record.value for record in await consumer.poll(WAIT_SECONDS)]

    assert asyncio.run(exchange()) == [b"value"]


def test_the_helpers_work_while_a_loop_runs(levada_broker_session: EmbeddedBroker) -> None:
    """Tests of asyncio code call them from coroutines."""

    async def test() -> int:
        levada_broker_session.produce("helpers", ["value"])
        return len(await asyncio.to_thread(levada_broker_session.wait_for_records, "helpers"))

    assert asyncio.run(test()) == 1
