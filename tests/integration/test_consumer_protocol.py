"""librdkafka in groups that the broker assigns (KIP-848), alone and beside classic members."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.brokers import BrokerProcess, sound
from tests.integration.test_groups import WAIT_SECONDS, confluent, create_topic, wait_until

NEW = {"group_protocol": "consumer"}


@pytest.fixture
def quick_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """Members hear of changes soon, so that tests need not wait for five seconds each time."""
    settings = (
        "group.consumer.heartbeat.interval.ms=300",
        "group.consumer.min.heartbeat.interval.ms=300",
        "group.consumer.assignment.interval.ms=0",
        "group.initial.rebalance.delay.ms=0",
    )
    with sound(BrokerProcess(tmp_path / "data", *settings)) as process:
        yield process


def owned(consumer: Consumer) -> set[tuple[str, int]]:
    message = consumer.poll(0.05)
    assert message is None or message.error() is None, message.error()
    return {(one.topic, one.partition) for one in consumer.assignment()}


def partitions(topic: str, count: int) -> set[tuple[str, int]]:
    return {(topic, index) for index in range(count)}


def shared_by(*consumers: Consumer) -> list[int]:
    return sorted(len(owned(consumer)) for consumer in consumers)


def test_members_share_partitions_and_the_last_one_has_all(quick_broker: BrokerProcess) -> None:
    create_topic(quick_broker, "shared", 6)
    with confluent(quick_broker, "shared", "shared", **NEW) as staying:
        wait_until(lambda: owned(staying) == partitions("shared", 6))
        with confluent(quick_broker, "shared", "shared", **NEW) as leaving:
            wait_until(lambda: shared_by(staying, leaving) == [3, 3])
            assert owned(staying) | owned(leaving) == partitions("shared", 6)
        wait_until(lambda: owned(staying) == partitions("shared", 6))


def test_a_member_goes_on_after_a_crash_of_the_broker_with_what_it_committed(quick_broker: BrokerProcess) -> None:
    sent = create_topic(quick_broker, "crash", 1, 20)
    with confluent(quick_broker, "crash", "crash", **NEW) as consumer:
        received = [consumer.poll(WAIT_SECONDS) for _ in range(10)]
        assert [message.value() for message in received if message is not None] == sent[:10]
        consumer.commit(asynchronous=False)
        quick_broker.kill()
        quick_broker.start()
        rest: list[bytes] = []

        def read_on() -> bool:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                rest.append(message.value() or b"")
            return len(rest) >= 10

        wait_until(read_on)
        assert rest == sent[10:]
        [committed] = consumer.committed([TopicPartition("crash", 0)], WAIT_SECONDS)
        assert committed.offset == 10


def test_topics_that_match_an_expression_later_are_taken_up(quick_broker: BrokerProcess) -> None:
    create_topic(quick_broker, "match-1", 2)
    with confluent(quick_broker, "^match-.*", "matching", **NEW, topic_metadata_refresh_interval_ms=500) as consumer:
        wait_until(lambda: owned(consumer) == partitions("match-1", 2))
        create_topic(quick_broker, "match-2", 1)
        wait_until(lambda: owned(consumer) == partitions("match-1", 2) | partitions("match-2", 1))


def test_a_group_moves_to_the_new_protocol_and_back_while_its_members_stay(quick_broker: BrokerProcess) -> None:
    create_topic(quick_broker, "moving", 4)
    classic = {"partition_assignment_strategy": "roundrobin", "heartbeat_interval_ms": 200}

    def kind() -> str:
        admin = AdminClient({"bootstrap.servers": quick_broker.bootstrap})
        [group] = admin.list_consumer_groups().result(WAIT_SECONDS).valid
        return str(group.type.name)

    with confluent(quick_broker, "moving", "moving", **classic) as old:
        wait_until(lambda: owned(old) == partitions("moving", 4))
        assert kind() == "CLASSIC"
        with confluent(quick_broker, "moving", "moving", **NEW) as new:
            wait_until(lambda: shared_by(old, new) == [2, 2])
            assert owned(old) | owned(new) == partitions("moving", 4)
            assert kind() == "CONSUMER"
        wait_until(lambda: owned(old) == partitions("moving", 4))
        assert kind() == "CLASSIC"
