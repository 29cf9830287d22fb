"""A topic that is made anew begins without offsets, also where the broker died before it had ended the old ones."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from levada.groups.records import OffsetCommitKey, decode
from levada.records import BatchView, iter_batches
from tests.brokers import BrokerProcess, sound
from tests.integration.test_group_durability import committed
from tests.integration.test_groups import WAIT_SECONDS, create_topic, wait_until

TOPIC = "anew"
GROUPS = PLAIN, TRANSACTIONAL = "plain", "transactional"
CHECK_MS = 200


@pytest.fixture
def tidy_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """One that looks for offsets to end all the time."""
    settings = ("group.initial.rebalance.delay.ms=0", f"offsets.retention.check.interval.ms={CHECK_MS}")
    with sound(BrokerProcess(tmp_path / "data", *settings)) as broker:
        yield broker


def consumer_of(broker: BrokerProcess, group: str) -> Consumer:
    return Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest"})


def commit(broker: BrokerProcess, offset: int) -> None:
    """By a member's request, and by a transaction."""
    offsets = [TopicPartition(TOPIC, 0, offset)]
    plain, transactional = consumer_of(broker, PLAIN), consumer_of(broker, TRANSACTIONAL)
    plain.commit(offsets=offsets, asynchronous=False)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "t"})
    producer.init_transactions(WAIT_SECONDS)
    producer.begin_transaction()
    producer.send_offsets_to_transaction(offsets, transactional.consumer_group_metadata(), WAIT_SECONDS)
    producer.commit_transaction(WAIT_SECONDS)
    plain.close()
    transactional.close()
    wait_until(lambda: [committed(broker, group) for group in GROUPS] == [{(TOPIC, 0): offset}] * 2)


def journals(broker: BrokerProcess) -> list[Path]:
    return list(broker.data_directory.glob("__consumer_offsets-*/*.log"))


def has_ends(batch: BatchView) -> bool:
    """Whether it ends offsets."""
    if batch.is_control:
        return False
    found = [decode(one.key or b"", one.value) for one in batch.records()]
    return any(one is not None and isinstance(one.key, OffsetCommitKey) and one.value is None for one in found)


def ends(broker: BrokerProcess) -> list[tuple[Path, int]]:
    """Where the batches are that end offsets."""
    return [
        (path, batch.start) for path in journals(broker) for batch in iter_batches(path.read_bytes()) if has_ends(batch)
    ]


def delete_and_kill(broker: BrokerProcess) -> None:
    """Leave a journal as of a broker that was killed when the topic was deleted and no offset was ended."""
    create_topic(broker, TOPIC, 1, 3)
    commit(broker, 3)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (deleted,) = admin.delete_topics([TOPIC]).values()
    deleted.result(WAIT_SECONDS)
    wait_until(lambda: len(ends(broker)) == len(GROUPS))
    broker.kill()
    for path, start in ends(broker):
        with path.open("r+b") as file:
            file.truncate(start)
    assert ends(broker) == []


def read_all(broker: BrokerProcess, group: str, count: int) -> list[bytes]:
    consumer = consumer_of(broker, group)
    values: list[bytes] = []

    def poll() -> bool:
        message: Any = consumer.poll(1.0)
        if message is not None and message.error() is None:
            values.append(message.value())
        return len(values) >= count

    try:
        consumer.subscribe([TOPIC])
        wait_until(poll)
    finally:
        consumer.close()
    return values


def test_offsets_whose_ends_a_kill_has_prevented_are_not_those_of_the_next_topic(own_broker: BrokerProcess) -> None:
    delete_and_kill(own_broker)
    own_broker.start()
    new = create_topic(own_broker, TOPIC, 1, 5)
    for group in GROUPS:
        assert committed(own_broker, group) == {}
        assert read_all(own_broker, group, len(new)) == new
        # A consumer commits what it has read when it is closed.
        assert committed(own_broker, group) == {(TOPIC, 0): 5}


def test_offsets_whose_ends_a_kill_has_prevented_are_ended_later(tidy_broker: BrokerProcess) -> None:
    delete_and_kill(tidy_broker)
    tidy_broker.start()
    wait_until(lambda: len(ends(tidy_broker)) == len(GROUPS))
