"""Topics made, filled and read on behalf of a test; by asyncio clients, in real or in simulated time."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from levada.client.admin import Admin, NewTopic
from levada.client.consumer import Consumer
from levada.client.errors import KafkaError
from levada.client.producer import Producer
from levada.client.types import RecordMetadata, TopicPartition
from levada.records import ConsumerRecord
from levada.testing.waiting import NotInTime

Text: TypeAlias = bytes | str | None
Value: TypeAlias = Text | tuple[Text, Text]
"""A value, or a key and a value; texts are sent as UTF-8."""

__tracebackhide__ = True

POLL_SECONDS = 0.5
RETRY_SECONDS = 0.02
SHOWN = 20
"""How many records a failure shows."""
SHOWN_BYTES = 60

READING_OPTIONS: Mapping[str, Any] = {
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    # To look for a topic must not make it.
    "allow_auto_create_topics": False,
}


async def create_topic(admin: Admin, name: str, partitions: int, configs: Mapping[str, str]) -> None:
    (await admin.create_topics([NewTopic(name, partitions, configs=configs)])).raise_any()


async def produce(
    producer: Producer,
    topic: str,
    values: Iterable[Value],
    *,
    partition: int | None = None,
    headers: Mapping[str, bytes] | None = None,
    timestamp_ms: int | None = None,
) -> list[RecordMetadata]:
    """Where each record went, once all are acknowledged."""
    handles = []
    for each in values:
        key, value = each if isinstance(each, tuple) else (None, each)
        handles.append(
            await producer.send(
                topic,
                _encoded(value),
                key=_encoded(key),
                headers=headers,
                partition=partition,
                timestamp_ms=timestamp_ms,
            )
        )
    return [await handle for handle in handles]


async def read_topic(
    new_consumer: Callable[..., Consumer], topic: str, count: int, timeout: float, isolation_level: str
) -> list[ConsumerRecord]:
    """All records of a topic once there are `count` of them, by partition and offset."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    found: list[ConsumerRecord] = []
    async with new_consumer(isolation_level=isolation_level, **READING_OPTIONS) as consumer:
        partitions = await _partitions(consumer, topic, deadline)
        consumer.assign(partitions)
        while True:
            left = max(deadline - loop.time(), 0.0)
            try:
                if await _is_at_end(consumer, partitions, left) and len(found) >= count:
                    return sorted(found, key=lambda record: (record.partition, record.offset))
            except KafkaError:
                # Also when there is no time left to ask; what was found is what there is to say.
                pass
            if loop.time() >= deadline:
                raise NotInTime(_report(topic, found, count, timeout))
            found += await consumer.poll(min(left, POLL_SECONDS))


async def _partitions(consumer: Consumer, topic: str, deadline: float) -> list[TopicPartition]:
    loop = asyncio.get_running_loop()
    while True:
        left = max(deadline - loop.time(), 0.0)
        try:
            views = await consumer.partitions_for(topic, left)
            return [TopicPartition(topic, index) for index in range(len(views))]
        except KafkaError as error:
            if loop.time() >= deadline:
                raise NotInTime(f"there is no topic {topic}: {error}") from None
            await asyncio.sleep(RETRY_SECONDS)


async def _is_at_end(consumer: Consumer, partitions: Sequence[TopicPartition], timeout: float) -> bool:
    for partition, end in (await consumer.end_offsets(partitions, timeout)).items():
        if await consumer.position(partition, timeout) < end:
            return False
    return True


def _encoded(text: Text) -> bytes | None:
    return text.encode() if isinstance(text, str) else text


def _report(topic: str, found: Sequence[ConsumerRecord], count: int, timeout: float) -> str:
    lines = [f"{topic} has {len(found)} of {count} records after {timeout} s"]
    lines += [f"  {each.topic}-{each.partition}@{each.offset} {_shown(each)}" for each in found[:SHOWN]]
    if len(found) > SHOWN:
        lines.append(f"  and {len(found) - SHOWN} more")
    return "\n".join(lines)


def _shown(record: ConsumerRecord) -> str:
    value = record.value
    short = value if value is None or len(value) <= SHOWN_BYTES else value[:SHOWN_BYTES] + b"..."
    return f"key={record.key!r} value={short!r}"
