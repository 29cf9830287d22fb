"""Keys of clients before Kafka 0.9: understood with the meaning they had."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from levada import aio
from levada.client.errors import BufferExhausted, ConfigurationError
from levada.client.options import consumer_options, producer_options
from levada.client.producer.batch import Batch
from tests.nodes import running_node

SERVER = "localhost:9092"
TOPIC = "t"


@pytest.mark.parametrize(
    ("older", "value", "newer", "read"),
    [
        ("request.required.acks", "1", "acks", 1),
        ("request.required.acks", "-1", "acks", -1),
        ("message.send.max.retries", "3", "retries", 3),
        ("compression.codec", "snappy", "compression.type", "snappy"),
        ("compression.codec", "1", "compression.type", "gzip"),
        ("queue.buffering.max.ms", "50", "linger.ms", 50),
        ("producer.type", "sync", "linger.ms", 0),
        ("producer.type", "async", "linger.ms", 5),
        ("partitioner.class", "kafka.producer.DefaultPartitioner", "partitioner.class", None),
        ("serializer.class", "kafka.serializer.StringEncoder", "linger.ms", 5),
    ],
)
def test_a_producers_older_keys_mean_what_they_meant(older: str, value: str, newer: str, read: object) -> None:
    assert producer_options(SERVER, {older: value})[newer] == read
    assert producer_options(SERVER, {older.replace(".", "_"): value})[newer] == read


@pytest.mark.parametrize(
    ("older", "value", "newer", "read"),
    [
        ("auto.commit.enable", "false", "enable.auto.commit", False),
        ("auto.offset.reset", "smallest", "auto.offset.reset", "earliest"),
        ("auto.offset.reset", "largest", "auto.offset.reset", "latest"),
        ("fetch.message.max.bytes", "1000", "max.partition.fetch.bytes", 1000),
        ("fetch.wait.max.ms", "10", "fetch.max.wait.ms", 10),
    ],
)
def test_a_consumers_older_keys_mean_what_they_meant(older: str, value: str, newer: str, read: object) -> None:
    assert consumer_options(SERVER, {"group.id": "g", older: value})[newer] == read


def test_servers_come_by_their_older_name_and_what_is_called_otherwise_today_is_said() -> None:
    options = producer_options(None, {"metadata.broker.list": "one:1,two:2", "queue.buffering.max.ms": "9"})
    assert options.addresses == (("one", 1), ("two", 2))
    assert options.warnings == [
        "metadata.broker.list is called bootstrap.servers today",
        "queue.buffering.max.ms is called linger.ms today",
    ]


def test_a_consumer_that_only_knows_zookeeper_is_told_what_to_give() -> None:
    with pytest.raises(ConfigurationError, match=r"zookeeper.connect=zk:2181: .* give bootstrap.servers"):
        consumer_options(None, {"zookeeper.connect": "zk:2181", "group.id": "g"})
    options = consumer_options(SERVER, {"zookeeper.connect": "zk:2181", "group.id": "g"})
    assert options.warnings == ["zookeeper.connect has no effect here: the brokers are asked"]


@pytest.mark.parametrize(
    "given",
    [
        {"linger.ms": "1", "queue.buffering.max.ms": "1"},
        {"producer.type": "both"},
        {"batch.num.messages": "0"},
        {"queue.buffering.max.messages": "many"},
        {"queue.enqueue.timeout.ms": "-2"},
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError):
        producer_options(SERVER, given)


@pytest.mark.parametrize("sends", ["one by one", "many"])
def test_batches_have_no_more_records_than_they_may(
    tmp_path: Path, sends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []
    succeed = Batch.succeed

    def noted(self: Batch, *rest: int) -> None:
        counts.append(self.count)
        succeed(self, *rest)

    monkeypatch.setattr(Batch, "succeed", noted)

    async def main() -> None:
        async with running_node(tmp_path) as node:
            await node.create(TOPIC)
            settings: dict[str, Any] = {"batch.num.messages": "3", "linger.ms": "1000"}
            async with aio.Producer(f"localhost:{node.node.port}", **settings) as producer:
                values = [b"%d" % number for number in range(10)]
                if sends == "many":
                    await producer.send_many(TOPIC, values)
                else:
                    for value in values:
                        await producer.send(TOPIC, value)
                await producer.flush()

    asyncio.run(asyncio.wait_for(main(), 60))
    assert counts == [3, 3, 3, 1]


def test_a_producer_whose_queue_is_full_drops_the_record_and_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            await node.create(TOPIC)
            settings: dict[str, Any] = {
                "queue.buffering.max.messages": "5",
                "queue.enqueue.timeout.ms": "0",
                "queue.buffering.max.ms": "60000",
            }
            async with aio.Producer(f"localhost:{node.node.port}", **settings) as producer:
                await producer.partitions_for(TOPIC)
                for _ in range(5):
                    await producer.send(TOPIC, b"taken")
                with pytest.raises(BufferExhausted):
                    await producer.send(TOPIC, b"dropped")
                await producer.flush()
                await producer.send(TOPIC, b"taken again")
                await producer.flush()

    asyncio.run(asyncio.wait_for(main(), 60))
