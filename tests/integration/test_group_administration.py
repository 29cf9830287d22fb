"""What administrators see and do of groups, through real clients, and the topic that keeps it all."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]
from kafka import OffsetAndMetadata
from kafka import TopicPartition as KafkaPythonPartition
from kafka.admin import KafkaAdminClient, MemberToRemove

from levada.model.error_codes import ErrorCode
from levada.model.hashes import coordinator_partition
from levada.net.channel import Channel
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from levada.world.real_net import RealNet
from tests.brokers import BrokerProcess
from tests.integration.test_groups import (
    WAIT_SECONDS,
    confluent,
    consume_with_confluent,
    create_topic,
    have_two_partitions_each,
    wait_until,
)

OFFSETS = "__consumer_offsets"


@pytest.fixture
def admin(broker: BrokerProcess) -> Any:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


@pytest.fixture
def other_admin(broker: BrokerProcess) -> Iterator[Any]:
    """kafka-python's; it can do what the other cannot, and the reverse."""
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        yield client
    finally:
        client.close()


def outcome(futures: dict[Any, Any]) -> Any:
    """The result of the one thing that was asked for, or the name of its error."""
    (future,) = futures.values()
    try:
        return future.result(WAIT_SECONDS)
    except KafkaException as error:
        return error.args[0].name()


def committed(admin: Any, group: str) -> dict[tuple[str, int], int]:
    listed = outcome(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
    return {(one.topic, one.partition): one.offset for one in listed.topic_partitions}


def names(listing: Any) -> set[str]:
    assert listing.errors == []
    return {one.group_id for one in listing.valid}


@contextmanager
def two_members(broker: BrokerProcess, name: str) -> Iterator[tuple[Any, Any]]:
    """Of a stable group that shares the four partitions of the topic of its name."""
    create_topic(broker, name, 4, 1)
    settings = {"heartbeat_interval_ms": 200, "partition_assignment_strategy": "range"}
    with (
        confluent(broker, name, name, client_id="one", **settings) as one,
        confluent(broker, name, name, client_id="other", **settings) as other,
    ):
        wait_until(lambda: have_two_partitions_each(one, other))
        yield one, other


def test_a_stable_group_is_described_with_its_members_and_their_partitions(
    broker: BrokerProcess, admin: Any, other_admin: Any
) -> None:
    with two_members(broker, "described"):
        found = outcome(admin.describe_consumer_groups(["described"], include_authorized_operations=True))
        assert found.state == ConsumerGroupState.STABLE
        assert found.type == ConsumerGroupType.CLASSIC
        assert found.partition_assignor == "range"
        assert not found.is_simple_consumer_group
        assert found.coordinator.port == broker.port
        assert {operation.name for operation in found.authorized_operations} >= {"READ", "DESCRIBE", "DELETE"}
        owned = {
            member.client_id: sorted(one.partition for one in member.assignment.topic_partitions)
            for member in found.members
        }
        assert sorted(owned.values()) == [[0, 1], [2, 3]]
        assert sorted(owned) == ["one", "other"]
        assert all(member.host.lstrip("/") in ("127.0.0.1", "::1") for member in found.members)
        described = other_admin.describe_groups(["described"])["described"]
        assert (described["group_state"], described["protocol_data"]) == ("Stable", "range")
        subscriptions = [member["member_metadata"]["topics"] for member in described["members"]]
        assert subscriptions == [["described"], ["described"]]
    (left,) = [outcome(admin.describe_consumer_groups(["described"]))]
    assert (left.state, left.members) == (ConsumerGroupState.EMPTY, [])


def test_an_unknown_group_is_dead_or_an_error_as_the_version_has_it(admin: Any, other_admin: Any) -> None:
    found = outcome(admin.describe_consumer_groups(["absent"]))
    assert found == "GROUP_ID_NOT_FOUND" or found.state == ConsumerGroupState.DEAD
    assert outcome(admin.delete_consumer_groups(["absent"])) == "GROUP_ID_NOT_FOUND"
    with pytest.raises(Exception, match="GroupIdNotFound"):
        other_admin.delete_group_offsets("absent", [KafkaPythonPartition("nothing", 0)])


def test_groups_are_listed_by_state_and_by_type(broker: BrokerProcess, admin: Any, other_admin: Any) -> None:
    sent = create_topic(broker, "listed-empty", 1, 3)
    consume_with_confluent(broker, "listed-empty", "listed-empty", len(sent))
    mine = {"listed-stable", "listed-empty"}

    def listed(**filters: Any) -> set[str]:
        return names(admin.list_consumer_groups(**filters).result(WAIT_SECONDS)) & mine

    with two_members(broker, "listed-stable"):
        assert listed() == mine
        assert listed(states={ConsumerGroupState.STABLE}) == {"listed-stable"}
        assert listed(states={ConsumerGroupState.EMPTY}) == {"listed-empty"}
        assert listed(states={ConsumerGroupState.DEAD}) == set()
        assert listed(types={ConsumerGroupType.CLASSIC}) == mine
        assert listed(types={ConsumerGroupType.CONSUMER}) == set()
        both = {"states": {ConsumerGroupState.STABLE}, "types": {ConsumerGroupType.CLASSIC}}
        assert listed(**both) == {"listed-stable"}
        shouted = other_admin.list_groups(states_filter=["Stable"], types_filter=["classic"])
        assert {group["group_id"] for group in shouted} & mine == {"listed-stable"}
        assert {group["protocol_type"] for group in shouted if group["group_id"] in mine} == {"consumer"}


def test_a_group_with_members_is_not_deleted_and_an_empty_one_goes_with_its_offsets(
    broker: BrokerProcess, admin: Any
) -> None:
    with two_members(broker, "deleted") as (one, _):
        one.commit(offsets=[TopicPartition("deleted", 0, 1)], asynchronous=False)
        assert outcome(admin.delete_consumer_groups(["deleted"])) == "NON_EMPTY_GROUP"
    assert committed(admin, "deleted") == {("deleted", 0): 1}
    assert outcome(admin.delete_consumer_groups(["deleted"])) is None
    assert committed(admin, "deleted") == {}
    assert "deleted" not in names(admin.list_consumer_groups().result(WAIT_SECONDS))
    assert outcome(admin.delete_consumer_groups(["deleted"])) == "GROUP_ID_NOT_FOUND"


def test_offsets_of_a_topic_that_members_read_are_not_deleted_and_others_are(
    broker: BrokerProcess, admin: Any, other_admin: Any
) -> None:
    create_topic(broker, "unread", 1, 1)
    read, unread = KafkaPythonPartition("thinned", 0), KafkaPythonPartition("unread", 0)
    with two_members(broker, "thinned") as (one, _):
        one.commit(offsets=[TopicPartition("thinned", 0, 1), TopicPartition("unread", 0, 1)], asynchronous=False)
        codes = other_admin.delete_group_offsets("thinned", [read, unread, KafkaPythonPartition("unread", 9)])
        assert {where: error.errno for where, error in codes.items()} == {
            read: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
            unread: ErrorCode.NONE,
            KafkaPythonPartition("unread", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert committed(admin, "thinned") == {("thinned", 0): 1}
    assert [error.errno for error in other_admin.delete_group_offsets("thinned", [read]).values()] == [0]
    assert committed(admin, "thinned") == {}


def test_an_administrator_removes_a_member_and_its_partitions_go_to_the_other(
    broker: BrokerProcess, other_admin: Any
) -> None:
    with two_members(broker, "removed") as (one, other):
        described = other_admin.describe_groups(["removed"])["removed"]
        before = {member["member_id"] for member in described["members"]}
        victim = next(iter(before))
        codes = other_admin.remove_group_members("removed", [MemberToRemove(member_id=victim)])
        assert [error.errno for error in codes.values()] == [0]
        # It finds out by its next heartbeat and joins as a new member.
        wait_until(lambda: have_two_partitions_each(one, other))

        def member_ids() -> set[str]:
            for consumer in (one, other):
                consumer.poll(0.05)
            members = other_admin.describe_groups(["removed"])["removed"]["members"]
            return {member["member_id"] for member in members}

        wait_until(lambda: len(member_ids()) == 2 and victim not in member_ids())


def test_offsets_of_a_deleted_topic_are_gone_and_those_of_others_stay(broker: BrokerProcess, admin: Any) -> None:
    for name in ("staying", "going"):
        create_topic(broker, name, 1, 3)
        consume_with_confluent(broker, name, "bereft", 3)
    assert committed(admin, "bereft") == {("staying", 0): 3, ("going", 0): 3}
    assert outcome(admin.delete_topics(["going"])) is None
    wait_until(lambda: committed(admin, "bereft") == {("staying", 0): 3})
    sent = create_topic(broker, "going", 1, 3)
    assert consume_with_confluent(broker, "going", "bereft", 3) == sent


def test_metadata_of_an_offset_is_kept_up_to_its_limit(broker: BrokerProcess, other_admin: Any) -> None:
    create_topic(broker, "annotated", 1, 1)
    where = KafkaPythonPartition("annotated", 0)

    def set_metadata(text: str) -> int:
        (error,) = other_admin.alter_group_offsets("annotated", {where: OffsetAndMetadata(1, text, -1)}).values()
        return int(error.errno)

    assert set_metadata("x" * 4_096) == ErrorCode.NONE
    assert set_metadata("y" * 4_097) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert other_admin.list_group_offsets({"annotated": None})["annotated"][where].metadata == "x" * 4_096


def ask(broker: BrokerProcess, *requests: Any, version: int) -> list[Any]:
    """All at once, each on a connection of its own."""

    async def call(request: Any) -> Any:
        channel = await Channel.connect(RealNet(), "localhost", broker.port)
        try:
            return await asyncio.wait_for(channel.call(request, version), WAIT_SECONDS)
        finally:
            channel.close()

    async def call_all() -> list[Any]:
        return await asyncio.gather(*map(call, requests))

    return asyncio.run(call_all())


def test_the_topic_of_offsets_is_made_when_a_group_first_needs_it(own_broker: BrokerProcess) -> None:
    admin: Any = AdminClient({"bootstrap.servers": own_broker.bootstrap})
    create_topic(own_broker, "plain", 1, 1)
    assert OFFSETS not in admin.list_topics(timeout=WAIT_SECONDS).topics
    found = ask(own_broker, *[FindCoordinatorRequest(key_type=0, coordinator_keys=["first"])] * 5, version=6)
    assert {answer.coordinators[0].error_code for answer in found} == {0}

    made = admin.list_topics(OFFSETS, timeout=WAIT_SECONDS).topics[OFFSETS]
    assert sorted(made.partitions) == list(range(50))
    assert {tuple(one.replicas) for one in made.partitions.values()} == {(1,)}
    capped = re.findall(rf".*topic={OFFSETS} replication_factor=1 wanted=3.*", own_broker.log)
    assert len(capped) == 1, own_broker.log
    entries = outcome(admin.describe_configs([ConfigResource("topic", OFFSETS)]))
    wanted = {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}
    assert {key: entries[key].value for key in wanted} == wanted
    assert {entries[key].is_default for key in wanted} == {False}


def test_a_client_that_asks_for_its_coordinator_and_goes_away_has_the_topic_made(own_broker: BrokerProcess) -> None:
    async def ask_and_go() -> None:
        channel = await Channel.connect(RealNet(), "localhost", own_broker.port)
        channel.send(FindCoordinatorRequest(key_type=0, coordinator_keys=["first"]), 6).cancel()
        channel.close()

    asyncio.run(ask_and_go())
    admin: Any = AdminClient({"bootstrap.servers": own_broker.bootstrap})
    wait_until(lambda: OFFSETS in admin.list_topics(timeout=WAIT_SECONDS).topics)
    wait_until(lambda: f"topic={OFFSETS} replication_factor=1 wanted=3" in own_broker.log)


def test_the_topic_of_offsets_is_internal_and_takes_no_records_from_clients(own_broker: BrokerProcess) -> None:
    create_topic(own_broker, "plain", 1, 1)
    consume_with_confluent(own_broker, "plain", "first", 1)
    wanted = [MetadataRequestTopic(name=name) for name in (OFFSETS, "plain")]
    (metadata,) = ask(own_broker, MetadataRequest(topics=wanted), version=12)
    assert {topic.name: topic.is_internal for topic in metadata.topics} == {OFFSETS: True, "plain": False}
    errors: list[Any] = []
    producer = Producer({"bootstrap.servers": own_broker.bootstrap, "message.timeout.ms": 10_000})
    producer.produce(OFFSETS, b"forged", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(WAIT_SECONDS) == 0
    assert [error.name() for error in errors] == ["TOPIC_EXCEPTION"]


def test_scenario_12_the_coordinator_of_a_group_leads_the_partition_that_its_name_hashes_to(
    own_broker: BrokerProcess,
) -> None:
    group = "membership-consumer-group"
    assert coordinator_partition(group, 50) == 33
    (found,) = ask(own_broker, FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), version=6)
    (coordinator,) = found.coordinators
    (metadata,) = ask(own_broker, MetadataRequest(topics=[MetadataRequestTopic(name=OFFSETS)]), version=12)
    (topic,) = metadata.topics
    leader = next(one.leader_id for one in topic.partitions if one.partition_index == 33)
    assert (coordinator.error_code, coordinator.node_id, coordinator.port) == (0, leader, own_broker.port)
    # What the group writes is in that partition's log, and in no other's.
    create_topic(own_broker, "plain", 1, 1)
    consume_with_confluent(own_broker, "plain", group, 1)
    assert own_broker.stop() == 0
    logs = own_broker.data_directory.glob(f"{OFFSETS}-*/*.log")
    assert {path.parent.name for path in logs if path.stat().st_size} == {f"{OFFSETS}-33"}
