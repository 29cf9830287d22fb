"""Real clients in consumer groups against a real broker."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka import KafkaConsumer

from tests.brokers import BrokerProcess, sound

WAIT_SECONDS = 20


def create_topic(broker: BrokerProcess, topic: str, partitions: int, messages_each: int = 0) -> list[bytes]:
    """A topic with some records in every partition; the values are what was sent."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (created,) = admin.create_topics([NewTopic(topic, partitions)]).values()
    created.result(WAIT_SECONDS)
    sent = [(partition, f"{partition}-{n}".encode()) for partition in range(partitions) for n in range(messages_each)]
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for partition, value in sent:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(WAIT_SECONDS) == 0
    return [value for _, value in sent]


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_true():
        assert time.monotonic() < deadline, "waited for nothing"


def have_two_partitions_each(*consumers: Consumer) -> bool:
    # Every one is polled each time: a consumer takes part in a rebalance only while it is polled.
    polled = [consumer.poll(0.05) is None for consumer in consumers]
    return all(polled) and all(len(consumer.assignment()) == 2 for consumer in consumers)


@contextmanager
def confluent(broker: BrokerProcess, topic: str, group: str, **settings: Any) -> Iterator[Consumer]:
    defaults = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
    spelled = {name.replace("_", "."): value for name, value in settings.items()}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, **defaults, **spelled})
    try:
        consumer.subscribe([topic])
        yield consumer
    finally:
        consumer.close()


def consume_with_confluent(broker: BrokerProcess, topic: str, group: str, count: int) -> list[bytes]:
    received: list[bytes] = []
    with confluent(broker, topic, group) as consumer:
        while len(received) < count:
            message = consumer.poll(WAIT_SECONDS)
            assert message is not None
            assert message.error() is None, message.error()
            received.append(message.value() or b"")
        consumer.commit(asynchronous=False)
    return received


def consume_with_kafka_python(broker: BrokerProcess, topic: str, group: str, count: int) -> list[bytes]:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=WAIT_SECONDS * 1000,
    )
    try:
        received = [record.value for _, record in zip(range(count), consumer)]
        consumer.commit()
        return received
    finally:
        consumer.close()


def consume_with_aiokafka(broker: BrokerProcess, topic: str, group: str, count: int) -> list[bytes]:
    async def consume() -> list[bytes]:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            received = [(await asyncio.wait_for(consumer.getone(), WAIT_SECONDS)).value for _ in range(count)]
            await consumer.commit()
        finally:
            await consumer.stop()
        return received

    return asyncio.run(consume())


CLIENTS = {
    "confluent-kafka": consume_with_confluent,
    "kafka-python": consume_with_kafka_python,
    "aiokafka": consume_with_aiokafka,
}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_second_consumer_of_a_group_goes_on_where_the_first_committed(broker: BrokerProcess, client: str) -> None:
    topic = f"continued-{client}"
    sent = create_topic(broker, topic, 1, 100)
    consume = CLIENTS[client]
    assert consume(broker, topic, f"{client}-one", 60) == sent[:60]
    assert consume(broker, topic, f"{client}-one", 40) == sent[60:]
    assert consume(broker, topic, f"{client}-other", 100) == sent


def test_one_client_goes_on_where_another_committed(broker: BrokerProcess) -> None:
    sent = create_topic(broker, "handed-on", 1, 90)
    received = [value for consume in CLIENTS.values() for value in consume(broker, "handed-on", "handed-on", 30)]
    assert received == sent


@pytest.mark.parametrize("client", CLIENTS)
def test_a_consumer_of_many_partitions_gets_all_of_them(broker: BrokerProcess, client: str) -> None:
    topic = f"many-{client}"
    sent = create_topic(broker, topic, 7, 20)
    assert sorted(CLIENTS[client](broker, topic, topic, len(sent))) == sorted(sent)


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_two_consumers_share_the_partitions_and_the_last_one_gets_them_all(
    broker: BrokerProcess, strategy: str
) -> None:
    topic = f"shared-{strategy}"
    sent = create_topic(broker, topic, 4, 25)
    received: list[bytes] = []

    def poll(consumer: Consumer) -> int:
        message = consumer.poll(0.05)
        if message is not None:
            assert message.error() is None, message.error()
            received.append(message.value() or b"")
            consumer.commit(message=message)
        return len(consumer.assignment())

    settings = {"partition_assignment_strategy": strategy, "heartbeat_interval_ms": 200}
    with confluent(broker, topic, topic, **settings) as staying:
        with confluent(broker, topic, topic, **settings) as leaving:
            wait_until(lambda: (poll(staying), poll(leaving)) == (2, 2))
            mine = {partition.partition for partition in staying.assignment()}
            theirs = {partition.partition for partition in leaving.assignment()}
            assert mine | theirs == {0, 1, 2, 3}
            wait_until(lambda: poll(staying) + poll(leaving) > 0 and set(received) >= set(sent))
        # The session is 45 seconds: this can only be the LeaveGroup of the consumer that closed.
        wait_until(lambda: poll(staying) == 4)


def test_two_aiokafka_consumers_share_the_partitions(broker: BrokerProcess) -> None:
    sent = create_topic(broker, "aiokafka-shared", 4, 25)

    async def consume() -> list[bytes]:
        consumers = [
            AIOKafkaConsumer(
                "aiokafka-shared",
                bootstrap_servers=broker.bootstrap,
                group_id="aiokafka-shared",
                auto_offset_reset="earliest",
                heartbeat_interval_ms=200,
            )
            for _ in range(2)
        ]
        received: dict[bytes, None] = {}
        try:
            await asyncio.gather(*(consumer.start() for consumer in consumers))
            deadline = time.monotonic() + WAIT_SECONDS
            while len(received) < len(sent) or [len(consumer.assignment()) for consumer in consumers] != [2, 2]:
                assert time.monotonic() < deadline, [consumer.assignment() for consumer in consumers]
                for consumer in consumers:
                    batches = await consumer.getmany(timeout_ms=50)
                    received.update({record.value: None for batch in batches.values() for record in batch})
        finally:
            for consumer in consumers:
                await consumer.stop()
        return list(received)

    assert sorted(asyncio.run(consume())) == sorted(sent)


def test_different_clients_share_the_partitions_of_one_group(broker: BrokerProcess) -> None:
    create_topic(broker, "mixed", 4)
    with confluent(broker, "mixed", "mixed", heartbeat_interval_ms=200) as librdkafka:
        other = KafkaConsumer("mixed", bootstrap_servers=broker.bootstrap, group_id="mixed", heartbeat_interval_ms=200)
        try:

            def sizes() -> tuple[int, int]:
                librdkafka.poll(0.05)
                other.poll(timeout_ms=50)
                return len(librdkafka.assignment()), len(other.assignment())

            wait_until(lambda: sizes() == (2, 2))
        finally:
            other.close()


CONSUMER_TO_KILL = """
import sys
from confluent_kafka import Consumer
bootstrap, topic = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "session.timeout.ms": 1500,
                     "heartbeat.interval.ms": 200})
consumer.subscribe([topic], on_assign=lambda _, partitions: print(len(partitions), flush=True))
while True:
    consumer.poll(0.1)
"""


@pytest.fixture
def impatient_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    settings = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=100")
    with sound(BrokerProcess(tmp_path / "data", *settings)) as process:
        yield process


def test_the_partitions_of_a_killed_consumer_go_to_the_other(impatient_broker: BrokerProcess) -> None:
    broker = impatient_broker
    create_topic(broker, "orphaned", 4)
    command = [sys.executable, "-c", CONSUMER_TO_KILL, broker.bootstrap, "orphaned"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as doomed,
        confluent(broker, "orphaned", "orphaned", session_timeout_ms=1500, heartbeat_interval_ms=200) as survivor,
    ):

        def owned() -> int:
            survivor.poll(0.05)
            return len(survivor.assignment())

        try:
            wait_until(lambda: owned() == 2)
        finally:
            doomed.kill()
        started = time.monotonic()
        wait_until(lambda: owned() == 4)
        assert time.monotonic() - started > 1, "its session cannot have ended yet"


def test_a_static_member_that_returns_finds_its_partitions_and_disturbs_no_member(broker: BrokerProcess) -> None:
    create_topic(broker, "static", 4)
    revoked: list[Any] = []

    def member(instance: str) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": "static",
                "group.instance.id": instance,
                "heartbeat.interval.ms": 200,
            }
        )
        consumer.subscribe(["static"], on_revoke=lambda _, partitions: revoked.append((instance, partitions)))
        return consumer

    staying, bouncing = member("staying"), member("bouncing")
    try:
        wait_until(lambda: have_two_partitions_each(staying, bouncing))
        before = sorted(partition.partition for partition in bouncing.assignment())
        bouncing.close()
        revoked.clear()
        bouncing = member("bouncing")
        wait_until(lambda: have_two_partitions_each(staying, bouncing))
        assert sorted(partition.partition for partition in bouncing.assignment()) == before
        assert revoked == []
    finally:
        staying.close()
        bouncing.close()


def test_an_administrator_reads_and_sets_the_offsets_of_an_idle_group_only(broker: BrokerProcess) -> None:
    sent = create_topic(broker, "administered", 2, 10)
    consume_with_confluent(broker, "administered", "administered", len(sent))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    def committed() -> dict[int, int]:
        (listed,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("administered")]).values()
        return {one.partition: one.offset for one in listed.result(WAIT_SECONDS).topic_partitions}

    def set_offset(offset: int) -> None:
        wanted = ConsumerGroupTopicPartitions("administered", [TopicPartition("administered", 0, offset)])
        (altered,) = admin.alter_consumer_group_offsets([wanted]).values()
        (partition,) = altered.result(WAIT_SECONDS).topic_partitions
        if partition.error:
            raise KafkaException(partition.error)

    assert committed() == {0: 10, 1: 10}
    set_offset(3)
    assert committed() == {0: 3, 1: 10}
    with confluent(broker, "administered", "administered") as consumer:
        wait_until(lambda: consumer.poll(0.1) is not None)
        with pytest.raises(KafkaException) as refusal:
            set_offset(0)
        assert refusal.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID
    assert committed() == {0: 3, 1: 10}


def test_a_broker_stops_well_while_members_wait(tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path / "data", "group.initial.rebalance.delay.ms=60000").start()
    try:
        create_topic(process, "parked", 1)
        with confluent(process, "parked", "parked") as consumer:
            wait_until(lambda: consumer.poll(0.1) is None and "preparing rebalance" in process.log)
            assert process.stop() == 0
    finally:
        process.kill()
    assert "Traceback" not in process.log, process.log
