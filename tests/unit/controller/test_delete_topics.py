"""Topics that are deleted, by their name or their id."""

from dataclasses import replace

import pytest

from levada.metadata.image import TOPIC
from levada.metadata.records import ConfigRecord, RemoveTopicRecord
from levada.model.error_codes import ErrorCode
from levada.protocol.declare import NO_UUID
from levada.protocol.messages.delete_topics import DeleteTopicsRequest
from tests.unit.controller.clusters import Cluster, create, delete, topic

FIRST, SECOND = (number.to_bytes(16, "big") for number in (1, 2))
UNKNOWN = b"u" * 16


def cluster_of_two() -> Cluster:
    return Cluster(1).with_topic("first", (1,)).with_topic("second", (1,))


@pytest.mark.parametrize(
    ("request_", "removed"),
    [
        (delete(("first", NO_UUID)), [FIRST]),
        (delete((None, SECOND)), [SECOND]),
        (delete((None, SECOND), ("first", NO_UUID)), [SECOND, FIRST]),
        (DeleteTopicsRequest(topic_names=["second", "first"], timeout_ms=1), [SECOND, FIRST]),
    ],
)
def test_a_topic_goes_by_name_or_by_id(request_: DeleteTopicsRequest, removed: list[bytes]) -> None:
    decision = cluster_of_two().decide(request_)
    assert decision.records == [RemoveTopicRecord(topic_id=topic_id) for topic_id in removed]
    names = {FIRST: "first", SECOND: "second"}
    assert [(one.name, one.topic_id, one.error_code) for one in decision.reply.responses] == [
        (names[topic_id], topic_id, ErrorCode.NONE) for topic_id in removed
    ]


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        (
            delete(("other", NO_UUID)),
            ("other", NO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."),
        ),
        (
            delete((None, UNKNOWN)),
            (None, UNKNOWN, ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."),
        ),
        (
            delete(("first", FIRST)),
            ("first", FIRST, ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."),
        ),
        (
            delete((None, NO_UUID)),
            (None, NO_UUID, ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified."),
        ),
        (
            delete(("first", NO_UUID), ("first", NO_UUID)),
            ("first", NO_UUID, ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
        ),
        (
            delete((None, FIRST), (None, FIRST)),
            (None, FIRST, ErrorCode.INVALID_REQUEST, "Duplicate topic id."),
        ),
        (
            delete((None, FIRST), ("first", NO_UUID)),
            (
                "first",
                FIRST,
                ErrorCode.INVALID_REQUEST,
                "The provided topic name maps to an ID that was already supplied.",
            ),
        ),
    ],
)
def test_what_cannot_be_deleted_is_refused_as_kafka_refuses_it(
    request_: DeleteTopicsRequest, told: tuple[str | None, bytes, int, str]
) -> None:
    decision = cluster_of_two().decide(request_)
    (result,) = decision.reply.responses
    assert (result.name, result.topic_id, result.error_code, result.error_message) == told
    assert decision.records == []


def test_one_unknown_topic_does_not_spoil_the_others() -> None:
    cluster = cluster_of_two()
    reply = cluster.do(delete(("other", NO_UUID), ("second", NO_UUID), (None, UNKNOWN)))
    assert [one.error_code for one in reply.responses] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]
    assert list(cluster.image.topics) == ["first"]


@pytest.mark.parametrize(
    ("version", "code"),
    [(1, ErrorCode.INVALID_REQUEST), (2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)],
)
def test_deletion_can_be_switched_off(version: int, code: int) -> None:
    cluster = cluster_of_two()
    cluster.defaults = replace(cluster.defaults, allows_deletion=False)
    for request in (delete(("first", NO_UUID)), delete((None, UNKNOWN))):
        decision = cluster.decide(request, version=version)
        (result,) = decision.reply.responses
        assert (result.error_code, result.error_message) == (code, "Topic deletion is disabled.")
        assert decision.records == []


def test_a_name_can_be_used_again_and_is_another_topic() -> None:
    cluster = cluster_of_two()
    cluster.add(ConfigRecord(resource_type=TOPIC, resource_name="first", name="segment.ms", value="5"))
    cluster.do(delete(("first", NO_UUID)))
    (result,) = cluster.do(create(topic("first", 4))).topics
    assert result.error_code == ErrorCode.NONE
    assert cluster.image.topics["first"].topic_id not in (FIRST, SECOND)
    assert len(cluster.partitions("first")) == 4
    assert cluster.image.config_of(TOPIC, "first") == {}


def test_a_name_that_collided_is_free_once_the_other_is_gone() -> None:
    cluster = Cluster(1).with_topic("a_b", (1,))
    cluster.do(delete(("a_b", NO_UUID)))
    assert cluster.do(create(topic("a.b"))).topics[0].error_code == ErrorCode.NONE
