"""Our own consumer against a real broker process."""

import asyncio
import gc
import logging
import random

import pytest

from levada.client.consumer.consumer import Consumer
from levada.client.errors import Disconnected, TimedOut
from levada.records import ConsumerRecord
from tests.brokers import BrokerProcess
from tests.clients.cases import WAIT_SECONDS, Case, name_of, numbered, produce, producer_of, read, reader, topic_of
from tests.clients.consumer_cases import CASES


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_case(broker: BrokerProcess, case: Case) -> None:
    asyncio.run(case(broker.bootstrap))  # type: ignore[arg-type]


@pytest.mark.parametrize("ends", ["politely", "by a crash"])
def test_reading_goes_on_after_the_broker_came_back(own_broker: BrokerProcess, ends: str) -> None:
    produce(own_broker.bootstrap, "restarted", numbered(5_000))

    async def scenario() -> None:
        async with reader(own_broker.bootstrap, max_poll_records=100) as consumer:
            consumer.assign([("restarted", 0)])
            records = await read(consumer, 1_000)
            await asyncio.to_thread(own_broker.stop if ends == "politely" else own_broker.kill)
            records += await consumer.poll(0.5)
            await asyncio.to_thread(own_broker.start)
            await asyncio.to_thread(produce, own_broker.bootstrap, "restarted", numbered(1_000))
            records += await read(consumer, 6_000 - len(records))
            assert [record.offset for record in records] == list(range(6_000))

    asyncio.run(scenario())


def test_a_broker_that_is_not_there_is_waited_for(own_broker: BrokerProcess) -> None:
    produce(own_broker.bootstrap, "absent", numbered(10))
    own_broker.stop()

    async def scenario() -> None:
        async with reader(own_broker.bootstrap, reconnect_backoff_max_ms=200) as consumer:
            consumer.assign([("absent", 0)])
            assert await consumer.poll(0.3) == []
            with pytest.raises((TimedOut, Disconnected), match=r"default\.api\.timeout\.ms|connect"):
                await consumer.end_offsets([("absent", 0)], timeout=0.3)
            await asyncio.to_thread(own_broker.start)
            assert len(await read(consumer, 10)) == 10

    asyncio.run(scenario())


def test_memory_is_bounded_while_the_caller_does_not_read(broker: BrokerProcess) -> None:
    producer = producer_of(broker.bootstrap)
    for number in range(30_000):
        producer.produce("bounded", bytes(1_000), partition=0)
        if number % 1_000 == 0:
            producer.poll(0)
    assert producer.flush(WAIT_SECONDS) == 0

    async def scenario() -> None:
        async with reader(broker.bootstrap, max_partition_fetch_bytes=500_000, fetch_max_bytes=1_000_000) as consumer:
            consumer.assign([("bounded", 0)])
            await consumer.poll(WAIT_SECONDS, max_records=1)
            await asyncio.sleep(0.5)
            assert consumer.metrics()["bytes-consumed-total"] < 3_000_000
            assert len(await read(consumer, 29_999)) == 29_999

    asyncio.run(scenario())


def test_a_consumer_that_is_forgotten_makes_no_noise(broker: BrokerProcess, caplog: pytest.LogCaptureFixture) -> None:
    produce(broker.bootstrap, "forgotten", numbered(10))

    async def scenario() -> int:
        consumer = reader(broker.bootstrap, group_id="forgetful")
        consumer.subscribe(["forgotten"])
        await consumer.poll(WAIT_SECONDS)
        del consumer
        gc.collect()
        await asyncio.sleep(0.3)
        return len(asyncio.all_tasks())

    with caplog.at_level(logging.WARNING):
        assert asyncio.run(scenario(), debug=False) == 1
    told = [record.getMessage() for record in caplog.records]
    assert [text for text in told if "consumer" in text] == [
        "a consumer was not closed; use `async with`, or await its close()"
    ]
    assert not [record for record in caplog.records if record.name == "asyncio"], told


@pytest.mark.parametrize("moment_ms", [0, 1, 5, 20, 100])
def test_a_loop_may_end_at_any_moment(broker: BrokerProcess, caplog: pytest.LogCaptureFixture, moment_ms: int) -> None:
    """As with asyncio.run and an error, or Ctrl-C: what is under way is cancelled, and nothing is closed."""

    async def scenario() -> None:
        consumer = reader(broker.bootstrap, group_id=f"ended-{moment_ms}")
        consumer.subscribe(["forgotten"])
        polling = asyncio.create_task(consumer.poll(WAIT_SECONDS))
        await asyncio.sleep(moment_ms / 1_000)
        assert polling is not None

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
        gc.collect()
    assert not [record.getMessage() for record in caplog.records if record.name == "asyncio"]


def test_a_cancelled_close_can_be_repeated(broker: BrokerProcess) -> None:
    async def scenario() -> None:
        consumer = Consumer(broker.bootstrap)
        consumer.assign([("forgotten", 0)])
        await consumer.poll(0.1)
        closing = asyncio.create_task(consumer.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        await consumer.close()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(scenario())


def test_nothing_is_lost_or_repeated_with_seeks_pauses_and_cancelled_polls(broker: BrokerProcess) -> None:
    """The consumer against a model: a position for each partition, and the records that are there."""
    chance = random.Random(11)
    count = 3_000
    topic = topic_of(broker.bootstrap, "model", partitions=3)
    for partition in range(3):
        produce(broker.bootstrap, topic, numbered(count), partition, **{"batch.num.messages": 70})

    async def scenario() -> None:
        async with reader(broker.bootstrap, max_partition_fetch_bytes=9_000, fetch_max_wait_ms=20) as consumer:
            partitions = [(topic, partition) for partition in range(3)]
            consumer.assign(partitions)
            expected = dict.fromkeys(range(3), 0)
            paused: set[int] = set()
            for _ in range(400):
                action = chance.random()
                partition = chance.randrange(3)
                records: list[ConsumerRecord] = []
                if action < 0.05:
                    expected[partition] = chance.randrange(count)
                    consumer.seek((topic, partition), expected[partition])
                elif action < 0.10:
                    consumer.seek_to_beginning([(topic, partition)])
                    expected[partition] = 0
                elif action < 0.2:
                    (consumer.pause if partition not in paused else consumer.resume)([(topic, partition)])
                    paused ^= {partition}
                elif action < 0.5:
                    try:
                        records = await asyncio.wait_for(consumer.poll(1.0), chance.random() * 0.004)
                    except TimeoutError:
                        continue
                elif action < 0.6:
                    batch = await consumer.poll_arrow(0.01)
                    for row in batch.to_pylist() if batch is not None else []:
                        assert row["partition"] not in paused
                        assert row["offset"] == expected[row["partition"]]
                        expected[row["partition"]] += 1
                else:
                    records = await consumer.poll(0.02, max_records=chance.randrange(1, 300))
                for record in records:
                    assert record.partition not in paused
                    assert record.offset == expected[record.partition]
                    expected[record.partition] += 1
                for index, offset in expected.items():
                    assert await consumer.position((topic, index)) == offset

    asyncio.run(scenario())
