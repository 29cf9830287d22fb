"""Assigns classic groups as Apache Kafka 4.3.1's own assignors do, partition by partition and in the same order."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from levada.client.assignors import ASSIGNORS, Subscription
from levada.client.assignors.claims import Claim
from levada.client.assignors.sticky import decode_claim
from levada.client.assignors.wire import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

GOLDEN = Path(__file__).parents[1] / "data" / "golden" / "assignors"
CASES: list[tuple[str, Any]] = [
    (name, case) for name in ASSIGNORS for case in json.loads((GOLDEN / f"{name}.json").read_text())
]
WIRE: list[Any] = json.loads((GOLDEN / "consumer-protocol.json").read_text())
SUBSCRIPTIONS = [golden for golden in WIRE if golden["kind"] == "subscription"]
ASSIGNMENTS = [golden for golden in WIRE if golden["kind"] == "assignment"]


def unpacked(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def partitions_of(listed: list[tuple[str, int]]) -> list[tuple[str, int]]:
    return [(topic, number) for topic, number in listed]


def subscription_of(member: Any) -> Subscription:
    return Subscription(
        topics=member["topics"],
        user_data=unpacked(member.get("userData")),
        owned_partitions=partitions_of(member["ownedPartitions"]),
        generation_id=member["generation"],
        rack_id=member.get("rackId"),
        group_instance_id=member.get("groupInstanceId"),
    )


def id_of(value: Any) -> str:
    return (
        value
        if isinstance(value, str)
        else f"{value['name']} v{value['version']}"
        if "kind" in value
        else value["name"]
    )


def test_all_cases_are_here() -> None:
    assert list(ASSIGNORS) == ["range", "roundrobin", "sticky", "cooperative-sticky"]
    assert len(CASES) == 133 + 133 + 137 + 160
    assert len(SUBSCRIPTIONS) + len(ASSIGNMENTS) == 48


@pytest.mark.parametrize(("name", "case"), CASES, ids=id_of)
def test_a_group_is_assigned_as_apache_assigns_it(name: str, case: Any) -> None:
    counts = {topic: described["partitions"] for topic, described in case["topics"].items()}
    racks = {
        topic: [[rack for rack in replicas if rack is not None] for replicas in described["replicaRacks"]]
        for topic, described in case["topics"].items()
        if "replicaRacks" in described
    }
    members = {member_id: subscription_of(member) for member_id, member in case["members"].items()}
    # One case of each sticky assignor shows that Apache lets a member keep a partition that is gone; ours do not.
    expected = {
        member_id: [(topic, number) for topic, number in listed if number < counts[topic]]
        for member_id, listed in case["assignment"].items()
    }
    assert ASSIGNORS[name]().assign(counts, members, racks) == expected


@pytest.mark.parametrize(("name", "case"), [(name, case) for name, case in CASES if "sticky" in name], ids=id_of)
def test_user_data_has_apaches_bytes(name: str, case: Any) -> None:
    """What members carry was made by Apache's assignor from what it had been given."""
    for member in case["members"].values():
        data = unpacked(member.get("userData"))
        if not data:
            continue
        assignor = ASSIGNORS[name]()
        if name == "sticky":
            claim = decode_claim(data)
            assignor.on_assignment(claim.partitions, claim.generation_id)
        else:
            assignor.on_assignment(partitions_of(member["ownedPartitions"]), member["generation"])
        assert assignor.user_data(member["topics"]) == data


@pytest.mark.parametrize(
    "golden", [golden for golden in WIRE if "UserData" in golden["kind"]], ids=lambda golden: golden["name"]
)
def test_user_data_of_each_version_is_apaches(golden: Any) -> None:
    data = unpacked(golden["bytes"])
    assignor = ASSIGNORS["sticky" if golden["kind"] == "stickyUserData" else "cooperative-sticky"]()
    if "generation" in golden:
        assignor.on_assignment(partitions_of(golden.get("partitions", [])), golden["generation"])
    if "V0" in golden["name"]:
        assert decode_claim(base64.b64decode(golden["bytes"])) == Claim(partitions_of(golden["partitions"]))
    else:
        assert assignor.user_data([]) == data


@pytest.mark.parametrize("golden", SUBSCRIPTIONS, ids=id_of)
def test_a_subscription_is_apaches_both_ways(golden: Any) -> None:
    data = base64.b64decode(golden["bytes"])
    subscription = Subscription(
        topics=golden["topics"],
        user_data=unpacked(golden["userData"]),
        owned_partitions=partitions_of(golden["ownedPartitions"]),
        generation_id=golden["generationId"],
        rack_id=golden["rackId"],
    )
    assert encode_subscription(subscription, golden["version"]) == data
    decoded = golden["decoded"]
    assert decode_subscription(data, "i1") == Subscription(
        topics=decoded["topics"],
        user_data=unpacked(decoded["userData"]),
        owned_partitions=partitions_of(decoded["ownedPartitions"]),
        generation_id=-1 if decoded["generationId"] is None else decoded["generationId"],
        rack_id=decoded["rackId"],
        group_instance_id="i1",
    )


@pytest.mark.parametrize("golden", ASSIGNMENTS, ids=id_of)
def test_an_assignment_is_apaches_both_ways(golden: Any) -> None:
    data = base64.b64decode(golden["bytes"])
    user_data = unpacked(golden["userData"])
    assert encode_assignment(partitions_of(golden["partitions"]), user_data, golden["version"]) == data
    assert decode_assignment(data) == (partitions_of(golden["decoded"]["partitions"]), user_data)
