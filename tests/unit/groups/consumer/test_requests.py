"""What is refused before any group is looked at, and what is said about it."""

from typing import Any

import pytest

from levada.groups.consumer.refusals import group_not_found
from levada.model.error_codes import ErrorCode
from tests.unit.groups.consumer.harness import GROUP, Coordinator

INVALID = ErrorCode.INVALID_REQUEST


@pytest.fixture
def coordinator() -> Coordinator:
    coordinator = Coordinator()
    coordinator.topic("a", 2)
    return coordinator


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"member_id": " \t"}, "MemberId can't be empty."),
        ({"group_id": " "}, "GroupId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"owned": {"a": [0]}}, "TopicPartitions must be empty when (re-)joining."),
        (
            {"subscribed_topic_names": None},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ({"epoch": -2}, "InstanceId can't be null."),
        ({"epoch": -3}, "MemberEpoch is invalid."),
    ],
)
def test_an_invalid_request_hears_what_is_wrong(coordinator: Coordinator, fields: dict[str, Any], text: str) -> None:
    fields = {"member_id": "m", "epoch": 0, "subscribed_topic_names": ["a"], **fields}
    reply = coordinator.beat(fields.pop("member_id"), fields.pop("epoch"), **fields)
    assert (reply.error_code, reply.error_message) == (INVALID, text)
    assert not coordinator.groups.groups


def test_partitions_must_be_given_with_a_join(coordinator: Coordinator) -> None:
    request = coordinator.beat("m", 0, "a")
    assert request.error_code == ErrorCode.NONE
    reply = coordinator.beat("n", 1)
    assert reply.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_unknown_assignor_is_refused_with_those_that_are_known(coordinator: Coordinator) -> None:
    reply = coordinator.beat("m", 0, "a", server_assignor="sticky")
    assert reply.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert reply.error_message == "ServerAssignor sticky is not supported. Supported assignors: uniform, range."


def test_version_0_gets_its_member_id_from_us_and_version_1_brings_its_own(coordinator: Coordinator) -> None:
    made = coordinator.beat("", 0, "a", version=0)
    assert made.member_id is not None
    assert len(made.member_id) == 22
    assert coordinator.beat("own", 0, "a").member_id == "own"
    assert coordinator.beat("", 0, "a", version=1).error_code == INVALID


def test_a_made_member_id_never_looks_like_an_option(coordinator: Coordinator) -> None:
    coordinator._ids = (0xFC << 120) - 2
    reply = coordinator.beat("", 0, "a", version=0)
    assert reply.member_id is not None
    assert not reply.member_id.startswith("-")


def test_a_group_that_was_never_made_is_not_found(coordinator: Coordinator) -> None:
    stays = coordinator.beat("m", 5)
    leaves = coordinator.beat("m", -1)
    assert stays.error_code == leaves.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert stays.error_message == f"Consumer group {GROUP} not found."
    assert leaves.error_message == f"Group {GROUP} not found."
    described = coordinator.groups.describe(GROUP, coordinator.now_ms)
    assert (described.error_code, described.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Group {GROUP} not found.",
    )


def test_a_group_without_a_name_cannot_be_described(coordinator: Coordinator) -> None:
    assert coordinator.groups.describe("", coordinator.now_ms).error_code == ErrorCode.INVALID_GROUP_ID


def test_what_a_client_sent_is_quoted_in_part_if_it_is_long() -> None:
    text = group_not_found("g" * 32_767).text
    assert text is not None
    assert len(text) < 2_000
