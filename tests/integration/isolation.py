"""What readers of each client see of a partition, from its beginning to where their isolation lets them."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AiokafkaPartition
from confluent_kafka import Consumer, IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPythonPartition

from tests.brokers import BrokerProcess

COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
WAIT_SECONDS = 20.0
LEVELS = {COMMITTED: IsolationLevel.READ_COMMITTED, UNCOMMITTED: IsolationLevel.READ_UNCOMMITTED}

Read = Callable[[BrokerProcess, str, int, str], list[bytes]]


def end_of(broker: BrokerProcess, topic: str, partition: int, isolation: str) -> int:
    """The latest offset: the last stable one for a reader of committed records."""
    latest: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    # Held by a name: the future does not keep its client alive.
    admin: Any = AdminClient({"bootstrap.servers": broker.bootstrap})
    (listed,) = admin.list_offsets(
        {TopicPartition(topic, partition): latest}, isolation_level=LEVELS[isolation]
    ).values()
    offset: int = listed.result(WAIT_SECONDS).offset
    return offset


def ends_at(broker: BrokerProcess, topic: str, partition: int, offset: int) -> bool:
    """Whether all transactions up to an offset have ended, and nothing follows."""
    return all(end_of(broker, topic, partition, isolation) == offset for isolation in LEVELS)


def read_with_confluent(broker: BrokerProcess, topic: str, partition: int, isolation: str) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "absent",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    values: list[bytes] = []
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        while True:
            message = consumer.poll(WAIT_SECONDS)
            assert message is not None, "neither a record nor the end"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return values
            values.append(message.value() or b"")
    finally:
        consumer.close()


def read_with_kafka_python(broker: BrokerProcess, topic: str, partition: int, isolation: str) -> list[bytes]:
    end = end_of(broker, topic, partition, isolation)
    where = KafkaPythonPartition(topic, partition)
    consumer: Any = KafkaConsumer(bootstrap_servers=broker.bootstrap, isolation_level=isolation)
    values: list[bytes] = []
    deadline = time.monotonic() + WAIT_SECONDS
    try:
        consumer.assign([where])
        consumer.seek(where, 0)
        while consumer.position(where) < end:
            assert time.monotonic() < deadline, f"at {consumer.position(where)} of {end}"
            values += [record.value for batch in consumer.poll(timeout_ms=100).values() for record in batch]
        return values
    finally:
        consumer.close()


def read_with_aiokafka(broker: BrokerProcess, topic: str, partition: int, isolation: str) -> list[bytes]:
    end = end_of(broker, topic, partition, isolation)
    where = AiokafkaPartition(topic, partition)

    async def read() -> list[bytes]:
        consumer: Any = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, isolation_level=isolation)
        values: list[bytes] = []
        await consumer.start()
        try:
            consumer.assign([where])
            consumer.seek(where, 0)
            while await consumer.position(where) < end:
                batches = await consumer.getmany(timeout_ms=100)
                values += [record.value for batch in batches.values() for record in batch]
            return values
        finally:
            await consumer.stop()

    async def read_in_time() -> list[bytes]:
        return await asyncio.wait_for(read(), WAIT_SECONDS)

    return asyncio.run(read_in_time())


READERS: dict[str, Read] = {
    "confluent-kafka": read_with_confluent,
    "kafka-python": read_with_kafka_python,
    "aiokafka": read_with_aiokafka,
}


def read_committed(broker: BrokerProcess, topic: str, partition: int = 0) -> list[bytes]:
    return read_with_confluent(broker, topic, partition, COMMITTED)


def read_everything(broker: BrokerProcess, topic: str, partition: int = 0) -> list[bytes]:
    return read_with_confluent(broker, topic, partition, UNCOMMITTED)
