"""Groups and their offsets outlive the broker: it is stopped or killed, and real clients go on."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient
from kafka import OffsetAndMetadata, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import CoordinatorLoadInProgressError

from tests.brokers import BrokerProcess
from tests.consumers import MEMBERS, CommitRefused, Member
from tests.integration.test_groups import WAIT_SECONDS, create_topic, wait_until

# kafka-python leaves the sockets open with which it knocked at a broker that was down.
pytestmark = pytest.mark.filterwarnings(
    "ignore:unclosed:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)

POLL_SECONDS = 1.0
"""Long, because kafka-python 3.0 forgets its assignment if a poll ends just before it arrives."""
ENDINGS: dict[str, Callable[[BrokerProcess], Any]] = {"stopped": BrokerProcess.stop, "killed": BrokerProcess.kill}


def restart(broker: BrokerProcess, ending: str) -> None:
    """End it, start it, and wait until it has read what it kept of groups; ListGroups alone needs all of it."""
    ENDINGS[ending](broker)
    broker.start()
    admin: Any = KafkaAdminClient(bootstrap_servers=broker.bootstrap)

    def is_loaded() -> bool:
        try:
            admin.list_groups()
        except CoordinatorLoadInProgressError:
            return False
        return True

    try:
        wait_until(is_loaded)
    finally:
        admin.close()


@contextmanager
def members_of(broker: BrokerProcess, kind: type[Member], name: str, count: int) -> Iterator[list[Member]]:
    """Members of the group and of the topic of that name."""
    with ExitStack() as stack:
        members = []
        for _ in range(count):
            members.append(kind(broker.bootstrap, name, name))
            stack.callback(members[-1].close)
        yield members


def produce(broker: BrokerProcess, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % 4)
    assert producer.flush(WAIT_SECONDS) == 0


def poll_until(members: list[Member], is_true: Callable[[list[bytes]], bool]) -> list[bytes]:
    """What the members got until it was so."""
    received: list[bytes] = []

    def poll() -> bool:
        for values in pool.map(lambda member: member.poll(POLL_SECONDS), members):
            received.extend(values)
        return is_true(received)

    # At once, because a member that joins may wait for another, which takes part only while it is polled.
    with ThreadPoolExecutor() as pool:
        wait_until(poll)
    return received


def share(members: list[Member]) -> None:
    """Poll until both have their half of four partitions."""
    poll_until(members, lambda _: [len(member.partitions()) for member in members] == [2, 2])


def commits(member: Member) -> bool:
    """Once the client has found its coordinator again."""
    try:
        member.commit()
    except CommitRefused:
        member.poll(POLL_SECONDS)
        return False
    return True


def rebalances_of(broker: BrokerProcess, group: str) -> list[str]:
    return re.findall(rf"(?:preparing rebalance|rebalanced) group='{group}' .*", broker.log)


def committed(broker: BrokerProcess, group: str) -> dict[tuple[str, int], int]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (listed,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {(one.topic, one.partition): one.offset for one in listed.result(WAIT_SECONDS).topic_partitions}


def go_on(broker: BrokerProcess, group: str, members: list[Member], round_number: int) -> None:
    """The members get what is new, each record once, and may commit it."""
    assert committed(broker, group) == {(group, index): 2 * round_number for index in range(4) if round_number}
    new = [b"%d-%d" % (round_number, number) for number in range(8)]
    produce(broker, group, *new)
    received = poll_until(members, lambda received: len(received) >= len(new))
    assert sorted(received) == new, "records came again: a member did not go on where it was"
    # That a commit is taken says that the coordinator knows the member and its generation.
    wait_until(lambda: all(commits(member) for member in members))


def test_stable_groups_go_on_without_a_rebalance_when_the_broker_is_back(own_broker: BrokerProcess) -> None:
    with ExitStack() as stack:
        groups: dict[str, list[Member]] = {}
        for client, kind in MEMBERS.items():
            create_topic(own_broker, client, 4)
            groups[client] = members = stack.enter_context(members_of(own_broker, kind, client, 2))
            share(members)
            go_on(own_broker, client, members, 0)
        owned = {client: [member.partitions() for member in members] for client, members in groups.items()}
        before = {client: rebalances_of(own_broker, client) for client in groups}
        for round_number, ending in enumerate(ENDINGS, start=1):
            restart(own_broker, ending)
            for client, members in groups.items():
                go_on(own_broker, client, members, round_number)
        assert {client: [member.partitions() for member in members] for client, members in groups.items()} == owned
        assert {client: rebalances_of(own_broker, client) for client in groups} == before


def test_a_static_member_that_comes_back_with_the_broker_keeps_its_place(own_broker: BrokerProcess) -> None:
    create_topic(own_broker, "placed", 4, 1)
    revoked: list[Any] = []

    def member(instance: str) -> Consumer:
        settings = {"bootstrap.servers": own_broker.bootstrap, "group.id": "placed", "group.instance.id": instance}
        consumer = Consumer({**settings, "heartbeat.interval.ms": 200, "log_level": 0, "error_cb": lambda _: None})
        consumer.subscribe(["placed"], on_revoke=lambda _, partitions: revoked.append((instance, partitions)))
        return consumer

    staying, bouncing = member("staying"), member("bouncing")
    try:

        def owned() -> list[list[int]]:
            for consumer in (staying, bouncing):
                consumer.poll(0.05)
            return [sorted(one.partition for one in consumer.assignment()) for consumer in (staying, bouncing)]

        wait_until(lambda: [len(one) for one in owned()] == [2, 2])
        before = owned()
        bouncing.close()
        restart(own_broker, "killed")
        revoked.clear()
        bouncing = member("bouncing")
        wait_until(lambda: [len(one) for one in owned()] == [2, 2])
        assert owned() == before
        assert revoked == []
    finally:
        staying.close()
        bouncing.close()


def test_what_an_administrator_did_to_groups_outlives_the_broker(own_broker: BrokerProcess) -> None:
    for name in ("kept", "dropped"):
        create_topic(own_broker, name, 2, 5)
    groups = ("altered", "deleted", "thinned", "orphaned")
    first, second = TopicPartition("kept", 0), TopicPartition("kept", 1)
    admin: Any = KafkaAdminClient(bootstrap_servers=own_broker.bootstrap)
    everything = {
        TopicPartition(topic, index): OffsetAndMetadata(index + 1, f"{topic}-{index}", -1)
        for topic in ("kept", "dropped")
        for index in range(2)
    }
    for group in groups:
        assert {error.errno for error in admin.alter_group_offsets(group, everything).values()} == {0}
    moved = {first: OffsetAndMetadata(4, "moved", -1)}
    assert [error.errno for error in admin.alter_group_offsets("altered", moved).values()] == [0]
    assert admin.delete_groups(["deleted"])["deleted"] == "OK"
    thinned = admin.delete_group_offsets("thinned", [second])
    assert [error.errno for error in thinned.values()] == [0]
    admin.delete_topics(["dropped"])
    admin.close()

    for ending in ENDINGS:
        restart(own_broker, ending)
        admin = KafkaAdminClient(bootstrap_servers=own_broker.bootstrap)
        listed = {group["group_id"]: group["group_state"] for group in admin.list_groups()}
        found = admin.list_group_offsets(dict.fromkeys(groups))
        admin.close()
        assert listed == dict.fromkeys(("altered", "orphaned", "thinned"), "Empty")
        kept = {group: {one: (held.offset, held.metadata) for one, held in found[group].items()} for group in groups}
        assert kept == {
            "altered": {first: (4, "moved"), second: (2, "kept-1")},
            "deleted": {},
            "thinned": {first: (1, "kept-0")},
            "orphaned": {first: (1, "kept-0"), second: (2, "kept-1")},
        }


def test_offsets_committed_again_and_again_are_the_last_ones_after_kills(own_broker: BrokerProcess) -> None:
    create_topic(own_broker, "advancing", 4)
    admin: Any = KafkaAdminClient(bootstrap_servers=own_broker.bootstrap)
    for round_number in range(2):
        for step in range(100):
            offset = round_number * 100 + step
            wanted = {TopicPartition("advancing", index): OffsetAndMetadata(offset, "", -1) for index in range(4)}
            assert {error.errno for error in admin.alter_group_offsets("advancing", wanted).values()} == {0}
        admin.close()
        restart(own_broker, "killed")
        assert set(committed(own_broker, "advancing").values()) == {round_number * 100 + 99}
        admin = KafkaAdminClient(bootstrap_servers=own_broker.bootstrap)
    admin.close()
