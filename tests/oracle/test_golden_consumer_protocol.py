"""Reads and writes subscriptions and assignments of classic consumers as Apache Kafka 4.3.1 does."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from levada.protocol.errors import MalformedMessage
from levada.protocol.messages.consumer_protocol import (
    AssignedTopic,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedTopic,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

GOLDEN: list[Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "golden" / "assignors" / "consumer-protocol.json").read_text()
)
SUBSCRIPTIONS = [golden for golden in GOLDEN if golden["kind"] == "subscription"]
ASSIGNMENTS = [golden for golden in GOLDEN if golden["kind"] == "assignment"]


def name_of(golden: Any) -> str:
    return f"{golden['name']} v{golden['version']}"


def unpacked(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def by_topic(partitions: list[tuple[str, int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return found


def test_all_versions_are_here() -> None:
    assert {golden["version"] for golden in SUBSCRIPTIONS} == set(ConsumerProtocolSubscription.versions)  # type: ignore[attr-defined]
    assert {golden["version"] for golden in ASSIGNMENTS} == set(ConsumerProtocolAssignment.versions)  # type: ignore[attr-defined]
    assert len(SUBSCRIPTIONS) + len(ASSIGNMENTS) == 48


@pytest.mark.parametrize("golden", SUBSCRIPTIONS, ids=name_of)
def test_a_subscription_is_read_as_apache_reads_it(golden: Any) -> None:
    found = decode_subscription(base64.b64decode(golden["bytes"]))
    expected = golden["decoded"]
    generation_id = expected["generationId"]
    assert found == ConsumerProtocolSubscription(
        topics=expected["topics"],
        user_data=unpacked(expected["userData"]),
        owned_partitions=[
            OwnedTopic(topic=topic, partitions=partitions)
            for topic, partitions in by_topic(expected["ownedPartitions"]).items()
        ],
        generation_id=-1 if generation_id is None else generation_id,
        rack_id=expected["rackId"],
    )


@pytest.mark.parametrize("golden", SUBSCRIPTIONS, ids=name_of)
def test_a_subscription_has_apaches_bytes_whatever_its_order(golden: Any) -> None:
    subscription = ConsumerProtocolSubscription(
        topics=golden["topics"],
        user_data=unpacked(golden["userData"]),
        owned_partitions=[
            OwnedTopic(topic=topic, partitions=partitions)
            for topic, partitions in by_topic(golden["ownedPartitions"]).items()
        ],
        generation_id=golden["generationId"],
        rack_id=golden["rackId"],
    )
    assert encode_subscription(subscription, golden["version"]) == base64.b64decode(golden["bytes"])


@pytest.mark.parametrize("golden", ASSIGNMENTS, ids=name_of)
def test_an_assignment_is_apaches_both_ways(golden: Any) -> None:
    data = base64.b64decode(golden["bytes"])
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            AssignedTopic(topic=topic, partitions=partitions)
            for topic, partitions in by_topic(golden["decoded"]["partitions"]).items()
        ],
        user_data=unpacked(golden["decoded"]["userData"]),
    )
    assert decode_assignment(data) == assignment
    assert encode_assignment(assignment, golden["version"]) == data


def test_a_newer_version_is_read_as_the_newest_one_known() -> None:
    subscription = decode_subscription(bytes.fromhex("006300000001000174ffffffff00000000ffffffffffff0102"))
    assert subscription == ConsumerProtocolSubscription(topics=["t"])
    assert decode_assignment(bytes.fromhex("006300000000ffffffff0000")) == ConsumerProtocolAssignment(
        assigned_partitions=[]
    )


@pytest.mark.parametrize(
    "data",
    [
        "",
        "00",
        "ffff",
        "0000",
        "006300000001000174ffffffff",
        "0000ffffffffffffffff",
        "0000000000010001740000000400",
        "00007fffffff000174ffffffff",
        "000000000001ffff74ffffffff",
    ],
)
def test_what_apache_cannot_read_is_malformed(data: str) -> None:
    with pytest.raises(MalformedMessage):
        decode_subscription(bytes.fromhex(data))


@pytest.mark.parametrize("data", ["", "ffff", "000000000001000174", "000000000000"])
def test_what_apache_cannot_read_is_no_assignment(data: str) -> None:
    with pytest.raises(MalformedMessage):
        decode_assignment(bytes.fromhex(data))
