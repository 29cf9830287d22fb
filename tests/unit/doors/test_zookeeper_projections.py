"""What people look up in ZooKeeper, as an image has it."""

import json

from levada.doors.zookeeper_layout import BROKER_CONFIGS, DEFAULT_BROKER, TOPIC_CONFIGS, TOPICS
from levada.doors.zookeeper_projections import _batches, config_path, projection
from levada.doors.zookeeper_session import Create, Delete
from levada.metadata.delta import apply
from levada.metadata.image import BROKER, GROUP, TOPIC, Image, Resource
from levada.metadata.records import ConfigRecord, MetadataRecord, PartitionRecord, TopicRecord

TOPIC_ID = b"f" * 16


def image_of(partitions: int, *more: MetadataRecord) -> Image:
    created = [
        PartitionRecord(
            partition_id=index,
            topic_id=TOPIC_ID,
            replicas=[1, 2],
            isr=[1],
            leader=1,
            leader_epoch=3,
            partition_epoch=5,
            adding_replicas=[2],
        )
        for index in range(partitions)
    ]
    return apply(Image(), [TopicRecord(name="first", topic_id=TOPIC_ID), *created, *more], partitions)


def test_a_topic_has_a_node_for_itself_and_for_each_partition_parents_first() -> None:
    nodes = projection(image_of(2), f"{TOPICS}/first", 7)
    root = "/brokers/topics/first"
    assert list(nodes) == [
        root,
        f"{root}/partitions",
        f"{root}/partitions/0",
        f"{root}/partitions/0/state",
        f"{root}/partitions/1",
        f"{root}/partitions/1/state",
    ]
    topic = json.loads(nodes[root])
    assert topic["partitions"] == {"0": [1, 2], "1": [1, 2]}
    assert topic["adding_replicas"] == {"0": [2], "1": [2]}
    assert json.loads(nodes[f"{root}/partitions/1/state"]) == {
        "controller_epoch": 7,
        "leader": 1,
        "version": 1,
        "leader_epoch": 3,
        "isr": [1],
        "leader_recovery_state": 0,
    }


def test_what_is_gone_or_too_large_for_a_node_has_none() -> None:
    image = image_of(1)
    assert projection(image, f"{TOPICS}/second", 1) == {}
    assert projection(image, f"{TOPIC_CONFIGS}/second", 1) == {}
    assert projection(image, f"{BROKER_CONFIGS}/1", 1) == {}
    assert projection(image_of(40_000), f"{TOPICS}/first", 1) == {}


def test_configurations_of_topics_and_brokers_are_shown_and_of_no_others() -> None:
    image = image_of(
        1,
        ConfigRecord(resource_type=BROKER, resource_name="", name="a", value="1"),
        ConfigRecord(resource_type=BROKER, resource_name="3", name="b", value="2"),
    )
    assert projection(image, f"{BROKER_CONFIGS}/{DEFAULT_BROKER}", 1) == {
        "/config/brokers/<default>": b'{"version":1,"config":{"a":"1"}}'
    }
    assert projection(image, f"{BROKER_CONFIGS}/3", 1) == {"/config/brokers/3": b'{"version":1,"config":{"b":"2"}}'}
    assert projection(image, f"{TOPIC_CONFIGS}/first", 1) == {"/config/topics/first": b'{"version":1,"config":{}}'}
    paths = [config_path(Resource(kind, "x")) for kind in (TOPIC, BROKER, GROUP)]
    assert paths == ["/config/topics/x", "/config/brokers/x", None]


def test_transactions_are_small_enough_for_zookeeper() -> None:
    small = [("root", Delete(f"/{number}")) for number in range(250)]
    assert [len(batch) for batch in _batches([*small])] == [100, 100, 50]
    large = [("root", Create(f"/{number}", bytes(300_000))) for number in range(3)]
    assert [len(batch) for batch in _batches([*large])] == [1, 1, 1]
