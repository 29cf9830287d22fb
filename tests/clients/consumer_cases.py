"""What our consumer does with any broker, Apache's or ours: each case takes the address of one."""

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from levada.client.consumer.consumer import Consumer
from levada.client.errors import (
    IllegalState,
    NoOffsetForPartition,
    OffsetOutOfRange,
    SerializationFailed,
    TimedOut,
)
from levada.client.types import OffsetAndMetadata, TopicPartition
from levada.records import ConsumerRecord
from tests.integration.samples import CODECS, samples

Case = Callable[[str], Awaitable[None]]

WAIT_SECONDS = 20
FIRST_MS = 1_700_000_000_000

CASES: list[Case] = []


def case(function: Case) -> Case:
    CASES.append(function)
    return function


def name_of(function: Case) -> str:
    return getattr(function, "__name__", "case")


# What the cases have in common


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


# Reading


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


# Positions


@case
async def a_seek_may_go_anywhere(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "seeks", partitions=2)
    produce(bootstrap, topic, numbered(1_000), 0)
    produce(bootstrap, topic, numbered(10), 1)
    async with reader(bootstrap) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek((topic, 0), 900)
        assert values_of(await read(consumer, 100)) == numbered(100, 900)
        # Into the middle of what is at hand, back, and to where it is.
        for offset in (500, 123, 1, 999, 0, 0):
            consumer.seek((topic, 0), OffsetAndMetadata(offset))
            assert await consumer.position((topic, 0)) == offset
            (record,) = await consumer.poll(WAIT_SECONDS, max_records=1)
            assert record.offset == offset
        consumer.seek_to_end()
        assert await consumer.position((topic, 0)) == 1_000
        assert await consumer.poll(0.1) == []
        consumer.seek_to_beginning([(topic, 0)])
        assert values_of(await read(consumer, 1_000)) == numbered(1_000)
        # Other partitions: what was at hand is not handed out any more.
        consumer.seek((topic, 0), 0)
        await consumer.poll(WAIT_SECONDS, max_records=1)
        consumer.assign([(topic, 1)])
        assert consumer.assignment() == {(topic, 1)}
        assert {record.partition for record in await read(consumer, 10)} == {1}


@case
async def the_policy_says_where_to_begin(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "policies")
    produce(bootstrap, topic, numbered(10))
    async with reader(bootstrap, auto_offset_reset="latest") as consumer:
        consumer.assign([(topic, 0)])
        assert await consumer.poll(0.2) == []
        assert await consumer.position((topic, 0)) == 10
        produce(bootstrap, topic, [b"new"])
        assert values_of(await read(consumer, 1)) == [b"new"]
    async with reader(bootstrap, auto_offset_reset="none") as consumer:
        consumer.assign([(topic, 0)])
        for _ in range(2):
            with pytest.raises(NoOffsetForPartition, match=f"{topic}-0"):
                await consumer.poll(WAIT_SECONDS)
        with pytest.raises(NoOffsetForPartition):
            await consumer.position((topic, 0))
        consumer.seek((topic, 0), 9)
        assert values_of(await read(consumer, 2)) == [b"9", b"new"]
    for ago, expected in (("PT1H", 1), ("P365000D", 12)):
        produce_now(bootstrap, topic) if expected == 1 else None
        async with reader(bootstrap, auto_offset_reset=f"by_duration:{ago}") as consumer:
            consumer.assign([(topic, 0)])
            assert len(await read(consumer, expected)) == expected


def produce_now(bootstrap: str, topic: str) -> None:
    producer = producer_of(bootstrap)
    producer.produce(topic, b"now", partition=0)
    assert producer.flush(WAIT_SECONDS) == 0


@case
async def a_paused_partition_keeps_its_place(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "pauses", partitions=2)
    for partition in range(2):
        produce(bootstrap, topic, numbered(2_000), partition)
    async with reader(bootstrap, max_poll_records=100) as consumer:
        consumer.assign([(topic, 0), (topic, 1)])
        records = await read(consumer, 200)
        consumer.pause([(topic, 0)])
        assert consumer.paused() == {(topic, 0)}
        left = 2_000 - sum(record.partition == 1 for record in records)
        others = await read(consumer, left)
        assert {record.partition for record in others} == {1}
        assert await consumer.poll(0.1) == []
        consumer.resume([(topic, 0)])
        assert consumer.paused() == frozenset()
        records += await read(consumer, 2_000 - sum(record.partition == 0 for record in records))
        mine = [record.offset for record in records if record.partition == 0]
        assert mine == list(range(2_000))


@case
async def deleted_records_are_stepped_over_as_the_policy_says(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "deleted")
    produce(bootstrap, topic, numbered(100), **{"batch.num.messages": 10})
    async with reader(bootstrap) as consumer, reader(bootstrap, auto_offset_reset="none") as strict:
        consumer.assign([(topic, 0)])
        strict.assign([(topic, 0)])
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.delete_records([Place(topic, 0, 60)])
        while await consumer.beginning_offsets([(topic, 0)]) != {(topic, 0): 60}:
            await asyncio.sleep(0.05)
        consumer.seek((topic, 0), 10)
        assert values_of(await read(consumer, 40)) == numbered(40, 60)
        consumer.seek((topic, 0), 20)
        assert await arrow_values(consumer, 40) == numbered(40, 60)
        strict.seek((topic, 0), 10)
        with pytest.raises(OffsetOutOfRange) as caught:
            await strict.poll(WAIT_SECONDS)
        assert caught.value.offsets == {(topic, 0): 10}
        strict.seek((topic, 0), 99)
        assert values_of(await read(strict, 1)) == [b"99"]
        strict.seek((topic, 0), 1_000)
        with pytest.raises(OffsetOutOfRange):
            await strict.poll(WAIT_SECONDS)


@case
async def offsets_are_found_by_time(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "times", partitions=2)
    produce(bootstrap, topic, numbered(100), 0)
    async with reader(bootstrap) as consumer:
        both = [(topic, 0), (topic, 1)]
        assert await consumer.beginning_offsets(both) == {(topic, 0): 0, (topic, 1): 0}
        assert await consumer.end_offsets(both) == {(topic, 0): 100, (topic, 1): 0}
        found = await consumer.offsets_for_times({(topic, 0): FIRST_MS + 49_500, (topic, 1): FIRST_MS})
        hit = found[both[0]]  # type: ignore[index]
        assert hit is not None
        assert (hit.offset, hit.timestamp_ms) == (50, FIRST_MS + 50_000)
        assert found[both[1]] is None  # type: ignore[index]
        assert await consumer.offsets_for_times({(topic, 0): FIRST_MS + 10**9}) == {(topic, 0): None}
        with pytest.raises(ValueError, match="time"):
            await consumer.offsets_for_times({(topic, 0): -1})
        assert [each.index for each in await consumer.partitions_for(topic)] == [0, 1]
        assert len((await consumer.list_topics())[topic]) == 2
        with pytest.raises(TimedOut):
            await consumer.end_offsets([(topic, 7)], timeout=0.3)


@case
async def positions_are_committed_without_a_subscription(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "commits", partitions=2)
    produce(bootstrap, topic, numbered(10), 0)
    group = f"group-of-{topic}"
    async with reader(bootstrap, group_id=group, enable_auto_commit=False) as consumer:
        consumer.assign([(topic, 0)])
        await read(consumer, 10)
        assert await consumer.committed([(topic, 0)]) == {(topic, 0): None}
        await consumer.commit({(topic, 0): 4})
    async with reader(bootstrap, group_id=group, enable_auto_commit=False) as consumer:
        consumer.assign([(topic, 0), (topic, 1)])
        assert values_of(await read(consumer, 6)) == numbered(6, 4)
        heard: list[Any] = []
        consumer.commit_async(callback=lambda offsets, error: heard.append((offsets, error)))
        await consumer.commit()
        await consumer.poll(0)
        assert [error for _, error in heard] == [None]
        committed = (await consumer.committed([(topic, 0)]))[topic, 0]  # type: ignore[index]
        assert committed is not None
        assert committed.offset == 10


# Transactions


@case
async def aborted_records_are_left_out_under_read_committed(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "transactions")
    producer = producer_of(bootstrap, **{"transactional.id": f"id-of-{topic}"})
    producer.init_transactions(WAIT_SECONDS)
    expected = []
    for number in range(12):
        producer.begin_transaction()
        values = numbered(30, 30 * number)
        for value in values:
            producer.produce(topic, value, partition=0)
        # An abort drops what has not been sent yet.
        assert producer.flush(WAIT_SECONDS) == 0
        if number % 3:
            producer.abort_transaction(WAIT_SECONDS)
        else:
            producer.commit_transaction(WAIT_SECONDS)
            expected += values
    produce(bootstrap, topic, [b"outside"])
    expected.append(b"outside")
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(WAIT_SECONDS)
    async with reader(bootstrap, isolation_level="read_committed", max_partition_fetch_bytes=900) as consumer:
        consumer.assign([(topic, 0)])
        assert values_of(await read(consumer, len(expected))) == expected
        assert await consumer.poll(0.2) == []
        (end,) = (await consumer.end_offsets([(topic, 0)])).values()
        assert await consumer.position((topic, 0)) == end
        assert consumer.current_lag((topic, 0)) == 0
        consumer.seek_to_beginning()
        columns = await arrow_values(consumer, len(expected))
        assert columns == expected
        # What is aborted may be the last there is: the position moves all the same.
        producer.abort_transaction(WAIT_SECONDS)
        assert await consumer.poll(1.0) == []
        (end_after,) = (await consumer.end_offsets([(topic, 0)])).values()
        assert end_after == end + 2
        assert await consumer.position((topic, 0)) == end_after
    async with reader(bootstrap) as consumer:
        consumer.assign([(topic, 0)])
        records = await read(consumer, 362)
        assert values_of(records)[:30] == numbered(30)
        assert len({record.offset for record in records}) == 362


async def arrow_values(consumer: Consumer, count: int) -> list[bytes]:
    values: list[bytes] = []
    async with asyncio.timeout(WAIT_SECONDS):
        while len(values) < count:
            batch = await consumer.poll_arrow(1.0)
            if batch is not None:
                values += batch.column("value").to_pylist()
    return values


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


# Groups, as far as polling has to do with them


class Notes:
    """A listener that makes calls of its own while a poll awaits it."""

    def __init__(self, consumer: Consumer) -> None:
        self.told: list[tuple[str, int]] = []
        self.positions: list[int] = []
        self._consumer = consumer

    async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.told.append(("revoked", len(partitions)))
        await self._consumer.commit()

    async def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.told.append(("assigned", len(partitions)))
        for partition in partitions:
            self.positions.append(await self._consumer.position(partition))
            if self.positions[-1] == 0:
                self._consumer.seek(partition, 2)

    async def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.told.append(("lost", len(partitions)))


@case
async def a_listener_may_look_seek_and_commit(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "listened", partitions=2)
    for partition in range(2):
        produce(bootstrap, topic, numbered(10), partition)
    group = f"group-of-{topic}"
    for protocol in ("classic", "consumer"):
        async with reader(bootstrap, group_id=group, enable_auto_commit=False, group_protocol=protocol) as consumer:
            notes = Notes(consumer)
            consumer.subscribe([topic], listener=notes)
            if protocol == "classic":
                records = await read(consumer, 16)
                assert {record.offset for record in records} == set(range(2, 10))
                assert consumer.group_metadata().group_id == group
            else:
                assert await consumer.poll(2.0) == []
                assert notes.positions == [10, 10]
            assert consumer.subscription() == {topic}
            assert len(consumer.assignment()) == 2
        assert notes.told == [("assigned", 2), ("revoked", 2)]


@case
async def what_was_handed_out_is_committed_on_close(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "automatic")
    produce(bootstrap, topic, numbered(100))
    seen: list[bytes] = []
    for _ in range(4):
        async with reader(bootstrap, group_id=f"group-of-{topic}", max_poll_records=25) as consumer:
            consumer.subscribe(topic)
            seen += values_of(await consumer.poll(WAIT_SECONDS))
    assert seen == numbered(100)


@case
async def a_pattern_finds_topics_that_come_later(bootstrap: str) -> None:
    first = topic_of(bootstrap, "found")
    prefix = first.rpartition("-")[2]
    produce(bootstrap, first, [b"first"])
    async with reader(bootstrap, group_id=f"group-of-{first}", metadata_max_age_ms=300) as consumer:
        consumer.subscribe(re.compile(rf".*{prefix}.*"))
        assert values_of(await read(consumer, 1)) == [b"first"]
        second = topic_of(bootstrap, f"found-{prefix}")
        produce(bootstrap, second, [b"second"])
        assert values_of(await read(consumer, 1)) == [b"second"]
        assert consumer.subscription() == {first, second}
        await consumer.unsubscribe()
        assert consumer.assignment() == frozenset()
        with pytest.raises(IllegalState, match="nothing to poll"):
            await consumer.poll(0)


@case
async def a_seek_does_not_wait_for_a_fetch_that_waits_for_data(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "impatient")
    produce(bootstrap, topic, numbered(5))
    async with reader(bootstrap, fetch_max_wait_ms=WAIT_SECONDS * 1_200) as consumer:
        consumer.assign([(topic, 0)])
        await read(consumer, 5)
        assert await consumer.poll(0.2) == []
        consumer.seek_to_beginning()
        assert values_of(await read(consumer, 5)) == numbered(5)
