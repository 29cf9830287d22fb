"""Assigns the groups of the golden cases as Apache Kafka 4.3.1's own assignors do, partition by partition."""

import json
from pathlib import Path
from typing import Any

import pytest

from levada.groups.assignors import ASSIGNORS, AssignmentError, MemberSpec
from levada.model.hashes import uuid_from_text

GOLDEN = Path(__file__).parents[1] / "data" / "golden" / "assignors"
CASES: list[tuple[str, Any]] = [
    (name, case)
    for name in ("uniform", "range")
    for case in json.loads((GOLDEN / f"consumer-group-{name}.json").read_text())
]


def in_order(named: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """The order in which Apache's hash maps gave them out."""
    return {name: named[name] for name in [*names, *named] if name in named}


def test_all_cases_are_here() -> None:
    assert len(CASES) == 230
    assert sum(case["subscriptionType"] == "HETEROGENEOUS" for _, case in CASES) > 50


@pytest.mark.parametrize(("name", "case"), CASES, ids=lambda value: value if isinstance(value, str) else value["name"])
def test_a_group_is_assigned_as_apache_assigns_it(name: str, case: Any) -> None:
    ids = {topic: uuid_from_text(described["topicId"]) for topic, described in case["topics"].items()}
    topic_order = case.get("topicOrderUsed", [])
    members = {
        member_id: MemberSpec(
            topics=[
                ids.get(topic, topic.encode().ljust(16))
                for topic in in_order(dict.fromkeys(member["topics"]), topic_order)
            ],
            current={
                ids[topic]: partitions
                for topic, partitions in in_order(member["currentAssignment"], topic_order).items()
            },
            instance_id=member.get("instanceId"),
        )
        for member_id, member in in_order(case["members"], case.get("memberOrderUsed", [])).items()
    }
    counts = {ids[topic]: described["partitions"] for topic, described in case["topics"].items()}
    if "error" in case:
        with pytest.raises(AssignmentError):
            ASSIGNORS[name](members, counts)
        return
    assert ASSIGNORS[name](members, counts) == {
        member_id: {ids[topic]: sorted(partitions) for topic, partitions in topics.items()}
        for member_id, topics in case["assignment"].items()
    }
