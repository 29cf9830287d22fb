"""Metadata records have the bytes that Apache's own serializer wrote (tests/data/metadata/records.txt)."""

from pathlib import Path
from typing import Any

import pytest

from levada.metadata.records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnknownRecord,
    UnregisterBrokerRecord,
    decode_record,
    encode_record,
)
from levada.protocol.errors import CodecError

LINES = (Path(__file__).parents[2] / "data" / "metadata" / "records.txt").read_text().split("\n")
APACHE = {name: bytes.fromhex(data) for name, _, data in (line.partition(" ") for line in LINES if line)}

ID = bytes(range(1, 17))
DIRECTORY = bytes(7) + b"\x01" + bytes(7) + b"\x02"

RECORDS: dict[str, Any] = {
    "topic": TopicRecord(name="first", topic_id=ID),
    "partition": PartitionRecord(
        partition_id=3,
        topic_id=ID,
        replicas=[1, 2, 3],
        isr=[1, 2],
        removing_replicas=[2],
        adding_replicas=[3],
        leader=1,
        leader_recovery_state=1,
        leader_epoch=7,
        partition_epoch=9,
        directories=[DIRECTORY] * 3,
        eligible_leader_replicas=[3],
        last_known_elr=[2],
    ),
    "partition-plain": PartitionRecord(
        partition_id=0,
        topic_id=ID,
        replicas=[1],
        isr=[1],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=[bytes(16)],
    ),
    "change": PartitionChangeRecord(
        partition_id=3,
        topic_id=ID,
        leader=2,
        isr=[2],
        replicas=[2, 1],
        removing_replicas=[],
        adding_replicas=[5],
        leader_recovery_state=0,
        directories=[DIRECTORY] * 2,
        eligible_leader_replicas=[1],
        last_known_elr=[1],
    ),
    "change-leader": PartitionChangeRecord(partition_id=3, topic_id=ID, leader=-1),
    "config": ConfigRecord(resource_type=2, resource_name="first", name="retention.ms", value="1000"),
    "config-gone": ConfigRecord(resource_type=4, resource_name="", name="x", value=None),
    "register": RegisterBrokerRecord(
        broker_id=1,
        incarnation_id=ID,
        broker_epoch=42,
        end_points=[BrokerEndpoint(name="PLAINTEXT", host="localhost", port=9092)],
        features=[BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=30)],
        rack="r1",
        log_dirs=[DIRECTORY],
    ),
    "unregister": UnregisterBrokerRecord(broker_id=1, broker_epoch=42),
    "unfence": BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=42, fenced=-1),
    "shutdown": BrokerRegistrationChangeRecord(
        broker_id=1, broker_epoch=42, in_controlled_shutdown=1, log_dirs=[DIRECTORY]
    ),
    "remove": RemoveTopicRecord(topic_id=ID),
    "feature": FeatureLevelRecord(name="metadata.version", feature_level=30),
    "producer-ids": ProducerIdsRecord(broker_id=1, broker_epoch=42, next_producer_id=3000),
}


def test_every_recorded_record_is_compared() -> None:
    assert list(RECORDS) == list(APACHE)


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_has_apaches_bytes(name: str) -> None:
    assert encode_record(RECORDS[name]).hex() == APACHE[name].hex()
    assert decode_record(APACHE[name]) == RECORDS[name]


@pytest.mark.parametrize("data", [b"\x02\x02\x00", b"\x01\x7f\x00", b"\x01\x02\x09abc"])
def test_what_a_newer_release_wrote_is_named_as_such(data: bytes) -> None:
    with pytest.raises(UnknownRecord):
        decode_record(data)


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x01\x02\x00\xff", APACHE["topic"][:-3], APACHE["topic"] + b"x"])
def test_a_damaged_record_is_refused(data: bytes) -> None:
    with pytest.raises(CodecError):
        decode_record(data)
