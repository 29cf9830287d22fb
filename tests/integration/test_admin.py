"""Topics and configurations through real clients' admin interfaces, against a real broker process."""

import time
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)
from kafka.admin import KafkaAdminClient
from kafka.admin import NewTopic as KafkaPythonTopic

from tests.brokers import BrokerProcess

WAIT_SECONDS = 20.0


@pytest.fixture
def admin(broker: BrokerProcess) -> Any:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def outcome(futures: dict[Any, Any]) -> Any:
    """The result of the one thing that was asked for, or the name of its error."""
    (future,) = futures.values()
    try:
        return future.result(WAIT_SECONDS)
    except KafkaException as error:
        return error.args[0].name()


def create(admin: Any, name: str, partitions: int = 1, configs: dict[str, str] | None = None) -> Any:
    return outcome(admin.create_topics([NewTopic(name, partitions, 1, config=configs or {})]))


def set_config(admin: Any, resource: Any, name: str, value: str | None) -> Any:
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    resource.add_incremental_config(ConfigEntry(name, value, incremental_operation=operation))
    return outcome(admin.incremental_alter_configs([resource]))


def config(admin: Any, resource: Any, name: str) -> tuple[str, int]:
    entry = outcome(admin.describe_configs([resource]))[name]
    return entry.value, entry.source


def produce(broker: BrokerProcess, topic: str, value: bytes, **settings: Any) -> str | None:
    """The name of the error a producer gets, None for success."""
    errors: list[Any] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.timeout.ms": 3_000, **settings})
    producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    producer.flush(WAIT_SECONDS)
    return None if errors[0] is None else errors[0].name()


def test_a_topic_is_created_described_grown_and_deleted(broker: BrokerProcess, admin: Any) -> None:
    assert create(admin, "life", 2, {"retention.ms": "12345"}) is None
    assert create(admin, "life") == "TOPIC_ALREADY_EXISTS"
    assert sorted(admin.list_topics(timeout=WAIT_SECONDS).topics["life"].partitions) == [0, 1]
    assert config(admin, ConfigResource("topic", "life"), "retention.ms") == ("12345", 1)
    assert outcome(admin.create_partitions([NewPartitions("life", 3)])) is None
    assert outcome(admin.create_partitions([NewPartitions("life", 2)])) == "INVALID_PARTITIONS"
    assert len(admin.list_topics("life", timeout=WAIT_SECONDS).topics["life"].partitions) == 3
    assert outcome(admin.delete_topics(["life"])) is None
    assert "life" not in admin.list_topics(timeout=WAIT_SECONDS).topics
    assert outcome(admin.delete_topics(["life"])) == "UNKNOWN_TOPIC_OR_PART"


def test_new_partitions_take_records_at_once(broker: BrokerProcess, admin: Any) -> None:
    assert create(admin, "grown") is None
    assert outcome(admin.create_partitions([NewPartitions("grown", 4)])) is None
    for index in range(4):
        assert produce(broker, "grown", b"v") is None, index


@pytest.mark.parametrize("name", ["a b", "a/b", "x" * 250, "."])
def test_an_illegal_name_is_refused(admin: Any, name: str) -> None:
    assert create(admin, name) == "TOPIC_EXCEPTION"


def test_names_that_metrics_cannot_tell_apart_are_refused(admin: Any) -> None:
    assert create(admin, "with.dot") is None
    assert create(admin, "with_dot") == "TOPIC_EXCEPTION"


def test_no_more_replicas_in_sync_are_wanted_than_there_are(broker: BrokerProcess, admin: Any) -> None:
    assert create(admin, "two", 1, {"min.insync.replicas": "2"}) is None
    assert produce(broker, "two", b"v", acks="all") is None


def test_a_topic_setting_has_its_effect_at_once_and_after_a_kill(own_broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": own_broker.bootstrap})
    assert create(admin, "small") is None
    assert produce(own_broker, "small", bytes(2_000)) is None
    assert set_config(admin, ConfigResource("topic", "small"), "max.message.bytes", "1000") is None
    assert produce(own_broker, "small", bytes(2_000)) == "MSG_SIZE_TOO_LARGE"
    own_broker.kill()
    own_broker.start()
    assert config(admin, ConfigResource("topic", "small"), "max.message.bytes") == ("1000", 1)
    assert produce(own_broker, "small", bytes(2_000)) == "MSG_SIZE_TOO_LARGE"


def test_a_broker_setting_has_its_effect_at_once(broker: BrokerProcess, admin: Any) -> None:
    assert create(admin, "inherits") is None
    assert set_config(admin, ConfigResource("broker", "1"), "message.max.bytes", "1000") is None
    assert produce(broker, "inherits", bytes(2_000)) == "MSG_SIZE_TOO_LARGE"
    assert config(admin, ConfigResource("broker", "1"), "message.max.bytes") == ("1000", 2)
    assert set_config(admin, ConfigResource("broker", "1"), "message.max.bytes", None) is None
    assert produce(broker, "inherits", bytes(2_000)) is None


@pytest.mark.parametrize(
    ("kind", "name", "key", "value", "error"),
    [
        ("topic", "inherits2", "no.such.key", "1", "INVALID_CONFIG"),
        ("topic", "inherits2", "retention.ms", "soon", "INVALID_CONFIG"),
        ("topic", "not-there", "retention.ms", "1", "UNKNOWN_TOPIC_OR_PART"),
        ("broker", "1", "num.partitions", "3", "INVALID_REQUEST"),
    ],
)
def test_a_wrong_setting_is_refused(admin: Any, kind: str, name: str, key: str, value: str, error: str) -> None:
    create(admin, "inherits2")
    assert set_config(admin, ConfigResource(kind, name), key, value) == error


def test_deleted_records_are_gone_for_readers(broker: BrokerProcess, admin: Any) -> None:
    assert create(admin, "cut") is None
    for number in range(5):
        assert produce(broker, "cut", b"%d" % number) is None
    assert outcome(admin.delete_records([TopicPartition("cut", 0, 3)])).low_watermark == 3
    earliest = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
    assert outcome(admin.list_offsets({TopicPartition("cut", 0): earliest})).offset == 3
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "x", "auto.offset.reset": "earliest"})
    try:
        consumer.assign([TopicPartition("cut", 0, 0)])
        deadline = time.monotonic() + WAIT_SECONDS
        values: list[bytes | None] = []
        while len(values) < 2 and time.monotonic() < deadline:
            values += [message.value() for message in consumer.consume(10, 0.2) if message.error() is None]
        assert values == [b"3", b"4"]
    finally:
        consumer.close()


def test_the_cluster_describes_itself(broker: BrokerProcess, admin: Any) -> None:
    cluster = admin.describe_cluster(include_authorized_operations=True).result(WAIT_SECONDS)
    assert [node.id for node in cluster.nodes] == [1]
    assert cluster.controller.id == 1
    assert len(cluster.authorized_operations) == 7
    advertised, _ = config(admin, ConfigResource("broker", "1"), "advertised.listeners")
    assert advertised.endswith(broker.bootstrap.rpartition(":")[2])


def test_acls_are_refused_without_an_authorizer(admin: Any) -> None:
    kinds = (AclOperation.READ, AclPermissionType.ALLOW)
    binding = AclBinding(ResourceType.TOPIC, "listed", ResourcePatternType.LITERAL, "User:ann", "*", *kinds)
    its = AclBindingFilter(ResourceType.TOPIC, "listed", ResourcePatternType.LITERAL, "User:ann", "*", *kinds)
    assert outcome(admin.create_acls([binding])) == "SECURITY_DISABLED"
    assert outcome(admin.delete_acls([its])) == "SECURITY_DISABLED"
    # librdkafka does not tell its users the code of a description.
    assert admin.describe_acls(its).result(WAIT_SECONDS) == []


def test_kafka_python_creates_describes_and_deletes(broker: BrokerProcess) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        admin.create_topics([KafkaPythonTopic(name="python", num_partitions=2, replication_factor=1)])
        assert "python" in admin.list_topics()
        admin.delete_topics(["python"])
        assert "python" not in admin.list_topics()
    finally:
        admin.close()


def test_a_group_is_configured_before_it_has_members(own_broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": own_broker.bootstrap})
    group = ("group", "told")
    heartbeat = "consumer.heartbeat.interval.ms"
    assert config(admin, ConfigResource(*group), heartbeat) == ("5000", 5)
    assert set_config(admin, ConfigResource(*group), heartbeat, "6000") is None
    assert set_config(admin, ConfigResource(*group), heartbeat, "4999") == "INVALID_CONFIG"
    own_broker.kill()
    own_broker.start()
    assert config(admin, ConfigResource(*group), heartbeat) == ("6000", 8)
    assert set_config(admin, ConfigResource(*group), heartbeat, None) is None
    assert config(admin, ConfigResource(*group), heartbeat) == ("5000", 5)
