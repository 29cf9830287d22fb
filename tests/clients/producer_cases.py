"""What our producer does with any broker, Apache's or ours: each case takes its address, and topics of its own."""

import asyncio
import json
import socket
import time
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from levada.client.consumer.consumer import Consumer
from levada.client.errors import (
    BufferExhausted,
    IllegalState,
    KafkaError,
    ProducerFenced,
    RecordTooLarge,
    SerializationFailed,
    TimedOut,
    TransactionAborted,
)
from levada.client.producer import Handle, Producer
from levada.client.types import GroupMetadata, OffsetAndMetadata, RecordMetadata, TopicPartition
from levada.model.hashes import partition_for_key
from levada.records import ConsumerRecord
from tests.clients.cases import WAIT_SECONDS, Case, topic_of, values_of

CASES: list[Case] = []


def case(function: Case) -> Case:
    CASES.append(function)
    return function


async def read_all(bootstrap: str, topic: str, **options: Any) -> list[ConsumerRecord]:
    """All that a topic holds, partition by partition."""
    async with Consumer(bootstrap, auto_offset_reset="earliest", **options) as consumer:
        partitions = [TopicPartition(topic, each.index) for each in await consumer.partitions_for(topic)]
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        records: list[ConsumerRecord] = []
        async with asyncio.timeout(WAIT_SECONDS):
            while any([await consumer.position(partition) < end for partition, end in ends.items()]):
                records += await consumer.poll(0.2)
    return sorted(records, key=lambda record: (record.partition, record.offset))


@case
async def a_record_arrives_with_all_its_parts(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "parts", 3)
    async with Producer(bootstrap) as producer:
        headers = {"tag": b"vip", "none": None}
        handle = await producer.send(
            topic, b"value", key=b"key", headers=headers, partition=2, timestamp_ms=1_700_000_000_123
        )
        assert await handle == RecordMetadata(topic, 2, 0, 1_700_000_000_123)
        assert handle.done()
        assert handle.result() == await handle
    [record] = await read_all(bootstrap, topic)
    assert (record.key, record.value, record.headers) == (b"key", b"value", (("tag", b"vip"), ("none", None)))
    assert (record.partition, record.offset, record.timestamp_ms) == (2, 0, 1_700_000_000_123)


@case
async def records_of_a_partition_keep_their_order(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "ordered", 2)
    async with Producer(bootstrap, batch_size=200, linger_ms=1) as producer:
        handles = [await producer.send(topic, b"%d" % number, partition=number % 2) for number in range(2_000)]
        await producer.flush()
        assert all(handle.done() for handle in handles)
        assert [(await handle).offset for handle in handles] == [number // 2 for number in range(2_000)]
    values = values_of(await read_all(bootstrap, topic))
    assert values == [b"%d" % number for start in (0, 1) for number in range(start, 2_000, 2)]


@case
async def keys_choose_partitions_as_in_every_other_client(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "keyed", 7)
    keys = [b"key-%d" % number for number in range(50)]
    async with Producer(bootstrap) as producer:
        for key in keys:
            await producer.send(topic, b"one", key=key)
        await (await producer.send_many(topic, [b"many"] * len(keys), keys=keys))
        await producer.flush()
    records = await read_all(bootstrap, topic)
    assert len(records) == 2 * len(keys)
    for record in records:
        assert record.key is not None
        assert record.partition == partition_for_key(record.key, 7)


@case
async def records_without_keys_are_spread_in_whole_batches(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "sticky", 4)
    async with Producer(bootstrap, batch_size=1_000) as producer:
        handles = [await producer.send(topic, bytes(90)) for _ in range(2_000)]
        places = [(await handle).partition for handle in handles]
    runs = 1 + sum(before != after for before, after in pairwise(places))
    assert set(places) == {0, 1, 2, 3}
    assert runs < 400, "a batch goes to one partition"


@case
async def every_codec_can_be_read_back(bootstrap: str) -> None:
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        topic = topic_of(bootstrap, f"codec-{codec}")
        values = [b"%d" % number * 20 for number in range(500)]
        async with Producer(bootstrap, compression_type=codec) as producer:
            for value in values:
                await producer.send(topic, value)
        assert values_of(await read_all(bootstrap, topic)) == values


@case
async def bulk_sends_lose_nothing(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "bulk", 3)
    values = [b"%06d" % number for number in range(20_000)]
    keys = [b"%d" % (number % 100) if number % 3 else None for number in range(20_000)]
    rows = pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary()), "key": pa.array(keys, pa.binary())})
    async with Producer(bootstrap, batch_size=4_096, buffer_memory=65_536) as producer:
        assert await (await producer.send_many(topic, values)) == len(values)
        assert await (await producer.send_many(topic, values, keys=keys)) == len(values)
        assert await (await producer.send_arrow(topic, rows)) == len(values)
        assert await (await producer.send_many(topic, [b"last"], partition=1)) == 1
    records = await read_all(bootstrap, topic)
    assert sorted(values_of(records)) == sorted(values * 3 + [b"last"])
    assert sum(record.key is not None for record in records) == 2 * sum(key is not None for key in keys)


@case
async def a_batch_too_large_for_its_topic_is_split(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "narrow", 1, **{"max.message.bytes": "2000"})
    values = [b"%03d" % number * 30 for number in range(200)]
    async with Producer(bootstrap, batch_size=50_000, linger_ms=20) as producer:
        handles = [await producer.send(topic, value) for value in values]
        assert [(await handle).offset for handle in handles] == list(range(200))
        with pytest.raises(RecordTooLarge):
            await (await producer.send(topic, bytes(3_000)))
        assert (await (await producer.send(topic, b"after"))).offset == 200
    assert values_of(await read_all(bootstrap, topic)) == [*values, b"after"]


@case
async def records_that_cannot_be_sent_are_refused_at_once(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "refused")
    async with Producer(bootstrap, max_request_size=10_000, value_serializer="json", max_block_ms=300) as producer:
        with pytest.raises(RecordTooLarge, match=r"max\.request\.size"):
            await producer.send(topic, "x" * 20_000)
        with pytest.raises(SerializationFailed):
            await producer.send(topic, object())
        with pytest.raises(ValueError, match="no partition 5"):
            await producer.send(topic, 1, partition=5)
        with pytest.raises((TimedOut, KafkaError)):
            await producer.send("no/such/topic", 1)
        await (await producer.send(topic, {"a": 1}))
    assert [json.loads(value) for value in values_of(await read_all(bootstrap, topic))] == [{"a": 1}]
    with pytest.raises(IllegalState, match="closed"):
        await producer.send(topic, 1)


@case
async def acks_and_idempotence_can_be_weaker(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "weaker")
    async with Producer(bootstrap, acks=1) as producer:
        assert (await (await producer.send(topic, b"one"))).offset == 0
    async with Producer(bootstrap, acks=0) as producer:
        assert (await (await producer.send(topic, b"zero"))).offset == -1
    async with Producer(bootstrap, enable_idempotence=False) as producer:
        await (await producer.send(topic, b"plain"))
    assert values_of(await read_all(bootstrap, topic)) == [b"one", b"zero", b"plain"]


@case
async def callbacks_and_interceptors_see_every_outcome(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "seen")
    seen: list[Any] = []

    class Watching:
        def configure(self, options: Any) -> None:
            seen.append("configured")

        def on_send(self, record: Any) -> Any:
            return record._replace(value=record.value + b"!")

        def on_acknowledgement(self, metadata: Any, error: Any) -> None:
            seen.append((metadata.offset, error))

        def close(self) -> None:
            seen.append("closed")

    class Failing:
        def on_send(self, record: Any) -> Any:
            raise RuntimeError("an interceptor's own fault")

    delivered: list[RecordMetadata | None] = []
    async with Producer(bootstrap, interceptor_classes=[Watching(), Failing()]) as producer:
        for _ in range(3):
            await producer.send(topic, b"hey", on_delivery=lambda metadata, _: delivered.append(metadata))
        await producer.flush()
    assert [metadata.offset for metadata in delivered if metadata] == [0, 1, 2]
    assert seen == ["configured", (0, None), (1, None), (2, None), "closed"]
    assert values_of(await read_all(bootstrap, topic)) == [b"hey!"] * 3


@case
async def a_transaction_is_seen_as_a_whole_or_not_at_all(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "atomic", 2)
    async with Producer(bootstrap, transactional_id=topic) as producer:
        with pytest.raises(IllegalState, match="init_transactions"):
            await producer.begin_transaction()
        await producer.init_transactions()
        with pytest.raises(IllegalState, match="begin_transaction"):
            await producer.send(topic, b"outside")
        async with producer.transaction():
            await producer.send(topic, b"in", partition=0)
            await producer.send(topic, b"in", partition=1)
        await producer.begin_transaction()
        sent = await producer.send(topic, b"sent and aborted", partition=0)
        await producer.flush()
        await producer.abort_transaction()
        assert (await sent).offset >= 0
        dropped: list[Handle] = []
        with pytest.raises(RuntimeError, match="of the user"):
            await fail_inside(producer, topic, dropped)
        with pytest.raises(TransactionAborted):
            await dropped[0]
        async with producer.transaction():
            await producer.send(topic, b"again", partition=0)
    committed = values_of(await read_all(bootstrap, topic, isolation_level="read_committed"))
    assert committed == [b"in", b"again", b"in"]
    assert b"sent and aborted" in values_of(await read_all(bootstrap, topic))


async def fail_inside(producer: Producer, topic: str, sent: list[Handle]) -> None:
    async with producer.transaction():
        sent.append(await producer.send(topic, b"never sent", partition=0))
        raise RuntimeError("of the user")


@case
async def offsets_are_committed_with_the_transaction(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "offsets")
    place = TopicPartition(topic, 0)
    async with (
        Producer(bootstrap, transactional_id=topic) as producer,
        Consumer(bootstrap, group_id=topic, isolation_level="read_committed") as consumer,
    ):
        await producer.init_transactions()
        group = GroupMetadata(topic)
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction({place: OffsetAndMetadata(7)}, group)
        await producer.abort_transaction()
        assert await consumer.committed([place]) == {place: None}
        async with producer.transaction():
            await producer.send(topic, b"with offsets")
            await producer.send_offsets_to_transaction({place: OffsetAndMetadata(9, "note")}, group)
        found = (await consumer.committed([place]))[place]
        assert found is not None
        assert (found.offset, found.metadata) == (9, "note")


@case
async def of_two_producers_with_one_id_the_older_is_fenced(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "fenced")
    async with Producer(bootstrap, transactional_id=topic) as older:
        await older.init_transactions()
        await older.begin_transaction()
        await (await older.send(topic, b"older"))
        async with Producer(bootstrap, transactional_id=topic) as newer:
            await newer.init_transactions()
            with pytest.raises(ProducerFenced):
                await older.commit_transaction()
            with pytest.raises(ProducerFenced):
                await older.send(topic, b"late")
            async with newer.transaction():
                await newer.send(topic, b"newer")
    assert values_of(await read_all(bootstrap, topic, isolation_level="read_committed")) == [b"newer"]


@case
async def a_silent_broker_bounds_memory_and_time(bootstrap: str) -> None:
    """What accepts connections and never says a word, in place of the broker."""
    silent = socket.create_server(("localhost", 0))
    port = silent.getsockname()[1]
    producer = Producer(f"localhost:{port}", max_block_ms=300, request_timeout_ms=200, delivery_timeout_ms=400)
    start = time.monotonic()
    with pytest.raises(TimedOut, match=r"max\.block\.ms"):
        await producer.send("any", b"value")
    assert time.monotonic() - start < WAIT_SECONDS / 2
    await producer.close(0.1)
    silent.close()


@case
async def memory_runs_out_with_a_clear_error(bootstrap: str) -> None:
    topic = topic_of(bootstrap, "memory")
    async with Producer(bootstrap, buffer_memory=40_000, batch_size=16_384, max_block_ms=0, linger_ms=500) as producer:
        with pytest.raises(TimedOut):
            await producer.send(topic, b"not known yet, and no time to ask")
    async with Producer(bootstrap, buffer_memory=40_000, batch_size=16_384, max_block_ms=5_000) as producer:
        for _ in range(100):
            await producer.send(topic, bytes(10_000))
        await producer.flush()
        assert producer.metrics()["buffer-available-bytes"] == 40_000
        with pytest.raises(RecordTooLarge, match=r"buffer\.memory"):
            await producer.send(topic, bytes(50_000))
    assert BufferExhausted.retriable
