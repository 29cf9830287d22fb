"""What our consumer reads from any broker: record by record, by iteration, as Arrow, through deserializers."""

import asyncio
import random
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from levada.client.errors import (
    IllegalState,
    SerializationFailed,
)
from levada.records import ConsumerRecord
from tests.clients.cases import (
    WAIT_SECONDS,
    Case,
    numbered,
    produce,
    producer_of,
    read,
    reader,
    topic_of,
    values_of,
)
from tests.integration.samples import CODECS, samples

CASES: list[Case] = []


def case(function: Case) -> Case:
    CASES.append(function)
    return function


@case
async def records_come_in_order_and_as_they_were_sent(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "samples")
    sent = [one for _ in CODECS for one in samples()]
    for codec in CODECS:
        producer = producer_of(bootstrap, **{"compression.type": codec, "message.max.bytes": 2_000_000})
        for one in samples():
            # A batch of its own for most, as they are large.
            producer.produce(
                topic, one.value, key=one.key, headers=list(one.headers), timestamp=one.timestamp_ms, partition=0
            )
        assert producer.flush(WAIT_SECONDS) == 0
    async with reader(bootstrap) as consumer:
        consumer.assign([(topic, 0)])
        records = await read(consumer, len(sent))
        assert [record.offset for record in records] == list(range(len(sent)))
        assert {(record.topic, record.partition, record.timestamp_type) for record in records} == {(topic, 0, 0)}
        assert [(one.key, one.value, one.headers, one.timestamp_ms) for one in records] == [
            (one.key, one.value, one.headers, one.timestamp_ms) for one in sent
        ]
        assert await consumer.poll(0.1) == []
        assert await consumer.position((topic, 0)) == len(sent)
        assert consumer.current_lag((topic, 0)) == 0


@case
async def no_poll_returns_more_than_it_may(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "limits")
    produce(bootstrap, topic, numbered(1_000))
    async with reader(bootstrap, max_poll_records=300) as consumer:
        consumer.assign([(topic, 0)])
        first = await consumer.poll(WAIT_SECONDS)
        assert values_of(first) == numbered(300)
        assert await consumer.position((topic, 0)) == 300
        assert values_of(await consumer.poll(WAIT_SECONDS, max_records=7)) == numbered(7, 300)
        assert values_of(await read(consumer, 693)) == numbered(693, 307)
        assert consumer.metrics()["records-consumed-total"] == 1_000


@case
async def partitions_take_turns(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "turns", partitions=3)
    for partition in range(3):
        produce(bootstrap, topic, numbered(5_000), partition, **{"batch.num.messages": 100})
    async with reader(bootstrap) as consumer:
        consumer.assign([(topic, partition) for partition in range(3)])
        records: list[ConsumerRecord] = []
        for _ in range(9):
            records += await consumer.poll(WAIT_SECONDS)
        # All have had a turn before the first is read to its end.
        assert {record.partition for record in records} == {0, 1, 2}
        await read(consumer, 15_000 - len(records))


@case
async def many_partitions_are_read_whole(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "many", partitions=120)
    producer = producer_of(bootstrap)
    for number in range(6_000):
        producer.produce(topic, b"%d" % number, partition=number % 120)
    assert producer.flush(WAIT_SECONDS) == 0
    # So little at once that not all partitions fit.
    async with reader(bootstrap, fetch_max_bytes=20_000, max_partition_fetch_bytes=1_000) as consumer:
        consumer.assign([(topic, partition) for partition in range(120)])
        records = await read(consumer, 6_000)
        for partition in range(120):
            mine = [record.offset for record in records if record.partition == partition]
            assert mine == list(range(50))


@case
async def a_record_larger_than_all_limits_is_read(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "large", 1, **{"max.message.bytes": "4000000", "segment.bytes": "20000000"})
    values = [b"small", random.Random(3).randbytes(3_000_000), b"after", b"x" * 2_000_000, b"last"]
    produce(bootstrap, topic, values, **{"message.max.bytes": 4_000_000, "batch.num.messages": 1})
    async with reader(bootstrap, max_partition_fetch_bytes=1_000, fetch_max_bytes=10_000) as consumer:
        consumer.assign([(topic, 0)])
        assert values_of(await read(consumer, 5)) == values


@case
async def records_that_come_later_are_waited_for(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "later")
    async with reader(bootstrap) as consumer:
        consumer.assign([(topic, 0)])
        assert await consumer.poll(0) == []
        assert await consumer.poll(0.3) == []
        waiting = asyncio.create_task(consumer.poll(WAIT_SECONDS))
        await asyncio.sleep(0.2)
        produce(bootstrap, topic, [b"at last"])
        assert values_of(await waiting) == [b"at last"]


@case
async def a_topic_may_come_later(bootstrap: str) -> None:
    name = f"unborn-{random.getrandbits(32):08x}"
    async with reader(bootstrap, allow_auto_create_topics=False) as consumer:
        consumer.assign([(name, 0)])
        assert await consumer.poll(0.5) == []
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(WAIT_SECONDS)
        produce(bootstrap, name, [b"born"])
        assert values_of(await read(consumer, 1)) == [b"born"]


@case
async def iteration_goes_from_record_to_record(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "iterated")
    produce(bootstrap, topic, numbered(20))
    seen = []
    async with reader(bootstrap, max_poll_records=3) as consumer:
        consumer.assign([(topic, 0)])
        async for record in consumer:
            seen.append(record.value)
            if len(seen) == 20:
                break
    assert seen == numbered(20)


@case
async def a_cancelled_poll_loses_nothing(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "cancelled", partitions=2)
    async with reader(bootstrap, max_poll_records=50) as consumer:
        consumer.assign([(topic, 0), (topic, 1)])
        producer = producer_of(bootstrap)
        chance = random.Random(5)
        records: list[ConsumerRecord] = []
        cancelled = 0
        for number in range(2_000):
            producer.produce(topic, b"%d" % number, partition=number % 2)
            if number % 50 == 0:
                producer.poll(0)
                try:
                    records += await asyncio.wait_for(consumer.poll(1.0), chance.random() * 0.01)
                except TimeoutError:
                    cancelled += 1
        producer.flush(WAIT_SECONDS)
        records += await read(consumer, 2_000 - len(records))
        assert cancelled
        for partition in range(2):
            assert [one.offset for one in records if one.partition == partition] == list(range(1_000))


@case
async def only_one_poll_at_a_time_and_none_after_the_end(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "refusals")
    consumer = reader(bootstrap)
    with pytest.raises(IllegalState, match="subscribe"):
        await consumer.poll(0)
    consumer.assign([(topic, 0)])
    waiting = asyncio.create_task(consumer.poll(WAIT_SECONDS))
    await asyncio.sleep(0.05)
    with pytest.raises(IllegalState, match="another poll"):
        await consumer.poll(0)
    consumer.wakeup()
    assert await waiting == []
    with pytest.raises(IllegalState, match="not assigned"):
        consumer.seek((topic, 1), 0)
    with pytest.raises(IllegalState, match=r"group\.id"):
        consumer.subscribe([topic])
    await consumer.close()
    await consumer.close()
    with pytest.raises(IllegalState, match="closed"):
        consumer.assign([(topic, 0)])
    with pytest.raises(IllegalState, match="closed"):
        consumer.seek((topic, 0), 0)
    with pytest.raises(IllegalState, match="closed"):
        await consumer.poll(0)


@case
async def a_poll_that_waits_ends_when_the_consumer_is_closed(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "closed")
    consumer = reader(bootstrap)
    consumer.assign([(topic, 0)])
    waiting = asyncio.create_task(consumer.poll(WAIT_SECONDS))
    await asyncio.sleep(0.2)
    await consumer.close()
    with pytest.raises(IllegalState, match="closed"):
        await asyncio.wait_for(waiting, 5)


# Arrow


@case
async def arrow_has_what_poll_has(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "arrow", partitions=2)
    for codec, partition in (("none", 0), ("zstd", 1)):
        producer = producer_of(bootstrap, **{"compression.type": codec, "message.max.bytes": 2_000_000})
        for one in samples():
            producer.produce(
                topic,
                one.value,
                key=one.key,
                headers=list(one.headers),
                timestamp=one.timestamp_ms,
                partition=partition,
            )
        assert producer.flush(WAIT_SECONDS) == 0
        produce(bootstrap, topic, numbered(1_000), partition)
    total = 2 * (len(samples()) + 1_000)
    async with reader(bootstrap) as consumer:
        consumer.assign([(topic, 0), (topic, 1)])
        records = await read(consumer, total)
        consumer.seek_to_beginning()
        rows: list[dict[str, Any]] = []
        # Some by poll first, so that what follows begins inside a batch.
        taken: list[ConsumerRecord] = []
        while len(taken) < 40:
            taken += await consumer.poll(WAIT_SECONDS, max_records=40 - len(taken))
        async with asyncio.timeout(WAIT_SECONDS):
            while len(rows) < total - 40:
                batch = await consumer.poll_arrow(1.0)
                rows += [] if batch is None else batch.to_pylist()
        for partition in range(2):
            by_poll = [one for one in records if one.partition == partition]
            by_both = [
                (one.offset, one.timestamp_ms, one.key, one.value, one.headers)
                for one in taken
                if one.partition == partition
            ] + [
                (
                    row["offset"],
                    round(row["timestamp"].timestamp() * 1_000),
                    row["key"],
                    row["value"],
                    tuple((header["key"], header["value"]) for header in row["headers"]),
                )
                for row in rows
                if row["partition"] == partition
            ]
            assert by_both == [(one.offset, one.timestamp_ms, one.key, one.value, one.headers) for one in by_poll]
        assert {(row["topic"], row["timestampType"]) for row in rows} == {(topic, 0)}
        assert await consumer.poll_arrow(0.1) is None
        assert await consumer.position((topic, 0)) == total // 2


# Deserializers and interceptors


@case
async def a_record_that_cannot_be_deserialized_can_be_stepped_over(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "deserialized")
    produce(bootstrap, topic, [b"1", b"2", b"three", b"4"])
    async with reader(bootstrap, value_deserializer=int_of) as consumer:
        consumer.assign([(topic, 0)])
        assert values_of(await read(consumer, 2)) == [1, 2]
        for _ in range(2):
            with pytest.raises(SerializationFailed, match="seek to 3") as caught:
                await consumer.poll(WAIT_SECONDS)
            assert caught.value.offset == 2
            assert await consumer.position((topic, 0)) == 2
        consumer.seek((topic, 0), 3)
        assert values_of(await read(consumer, 1)) == [4]


def int_of(data: bytes) -> int:
    return int(data)


@case
async def an_interceptor_sees_what_poll_returns(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "intercepted")
    produce(bootstrap, topic, numbered(4))

    class EvenOnly:
        def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
            return [record for record in records if int(record.value or b"1") % 2 == 0]

    async with reader(bootstrap, interceptor_classes=[EvenOnly]) as consumer:
        consumer.assign([(topic, 0)])
        assert values_of(await consumer.poll(WAIT_SECONDS)) == [b"0", b"2"]
        assert await consumer.position((topic, 0)) == 4
