"""Where our consumer reads on at any broker: positions, transactions, and what its group has to do with them."""

import asyncio
import re
from collections.abc import Collection
from typing import Any

import pytest
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from levada.client.consumer.consumer import Consumer
from levada.client.errors import (
    IllegalState,
    NoOffsetForPartition,
    OffsetOutOfRange,
    TimedOut,
)
from levada.client.types import OffsetAndMetadata, TopicPartition
from tests.clients.cases import (
    FIRST_MS,
    WAIT_SECONDS,
    Case,
    arrow_values,
    numbered,
    produce,
    producer_of,
    read,
    reader,
    topic_of,
    values_of,
)

CASES: list[Case] = []


def case(function: Case) -> Case:
    CASES.append(function)
    return function


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
