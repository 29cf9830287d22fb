"""What cases of clients with any broker, Apache's or ours, have in common: topics, records in them, and consumers."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from levada.client.consumer.consumer import Consumer
from levada.records import ConsumerRecord

Case = Callable[[str], Awaitable[None]]
"""Takes the address of a broker."""

WAIT_SECONDS = 20
FIRST_MS = 1_700_000_000_000


def name_of(function: Case) -> str:
    return getattr(function, "__name__", "case")


def topic_of(bootstrap: str, name: str, partitions: int = 1, **config: str) -> str:
    """A new topic, with a name of its own in a broker that serves many runs."""
    topic = f"{name}-{random.getrandbits(32):08x}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    # The times of the records lie so far back that a broker would soon delete them.
    made = admin.create_topics([NewTopic(topic, partitions, 1, config={"retention.ms": "-1", **config})])
    made[topic].result(WAIT_SECONDS)
    return topic


def produce(bootstrap: str, topic: str, values: Sequence[bytes], partition: int = 0, **settings: Any) -> None:
    """The n-th value gets the n-th second as its time."""
    producer = producer_of(bootstrap, **settings)
    failures: list[object] = []
    for number, value in enumerate(values):
        producer.produce(
            topic,
            value,
            partition=partition,
            timestamp=FIRST_MS + number * 1_000,
            on_delivery=lambda error, _: failures.append(error) if error is not None else None,
        )
    assert producer.flush(WAIT_SECONDS) == 0
    assert not failures


def producer_of(bootstrap: str, **settings: Any) -> Producer:
    return Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0, **settings})


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def reader(bootstrap: str, **options: Any) -> Consumer:
    return Consumer(bootstrap, **{"auto_offset_reset": "earliest", **options})


async def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """So many records, and not one more."""
    records: list[ConsumerRecord] = []
    async with asyncio.timeout(WAIT_SECONDS):
        while len(records) < count:
            records += await consumer.poll(1.0)
    assert len(records) == count
    return records


def values_of(records: Sequence[ConsumerRecord]) -> list[Any]:
    return [record.value for record in records]


async def arrow_values(consumer: Consumer, count: int) -> list[bytes]:
    values: list[bytes] = []
    async with asyncio.timeout(WAIT_SECONDS):
        while len(values) < count:
            batch = await consumer.poll_arrow(1.0)
            if batch is not None:
                values += batch.column("value").to_pylist()
    return values
