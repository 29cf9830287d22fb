"""Topics that are created and given more partitions, and what is refused, as Kafka refuses it."""

from dataclasses import replace
from typing import Any

import pytest

from levada.controller.elections import UNASSIGNED
from levada.metadata.image import TOPIC
from levada.metadata.records import NO_LEADER, ConfigRecord, PartitionRecord, TopicRecord
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from levada.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.unit.controller.clusters import Cluster, create, topic


def results(cluster: Cluster, request: Any) -> dict[str, tuple[int, str | None]]:
    """What each topic of a request is told, which must change nothing where it is an error."""
    decision = cluster.decide(request)
    reply = decision.reply.topics if isinstance(request, CreateTopicsRequest) else decision.reply.results
    return {one.name: (one.error_code, one.error_message) for one in reply}


def refusal(cluster: Cluster, *topics: CreatableTopic) -> tuple[int, str | None]:
    """Why the last of these topics is refused."""
    return results(cluster, create(*topics))[topics[-1].name]


def more(
    name: str, count: int, assignments: list[list[int]] | None = None, *, validate_only: bool = False
) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(
        topics=[_more(name, count, assignments)], timeout_ms=1_000, validate_only=validate_only
    )


def _more(name: str, count: int, assignments: list[list[int]] | None = None) -> CreatePartitionsTopic:
    assigned = None if assignments is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
    return CreatePartitionsTopic(name=name, count=count, assignments=assigned)


def test_a_topic_is_written_as_one_record_for_itself_each_partition_and_each_setting() -> None:
    decision = Cluster(1, 2).decide(create(topic("first", 2, 2, configs={"segment.ms": "5", "retention.ms": "7"})))
    made, *others = decision.records
    assert isinstance(made, TopicRecord)
    assert made == TopicRecord(name="first", topic_id=(1).to_bytes(16, "big"))
    assert [type(one) for one in others] == [PartitionRecord, PartitionRecord, ConfigRecord, ConfigRecord]
    assert others[2:] == [
        ConfigRecord(resource_type=TOPIC, resource_name="first", name="segment.ms", value="5"),
        ConfigRecord(resource_type=TOPIC, resource_name="first", name="retention.ms", value="7"),
    ]
    assert others[1] == PartitionRecord(
        partition_id=1,
        topic_id=made.topic_id,
        replicas=[1, 2],
        isr=[1, 2],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=[UNASSIGNED, UNASSIGNED],
    )
    (result,) = decision.reply.topics
    assert (result.error_code, result.topic_id, result.num_partitions, result.replication_factor) == (
        ErrorCode.NONE,
        made.topic_id,
        2,
        2,
    )


@pytest.mark.parametrize(
    ("wanted", "count", "factor"),
    [(topic(), 3, 1), (topic(partitions=5), 5, 1), (topic(factor=2), 3, 2), (topic(partitions=1, factor=2), 1, 2)],
)
def test_what_is_left_open_is_the_brokers_default(wanted: CreatableTopic, count: int, factor: int) -> None:
    cluster = Cluster(1, 2)
    cluster.do(create(wanted))
    assert [len(one.replicas) for one in cluster.partitions()] == [factor] * count


def test_a_partition_is_assigned_as_the_request_says() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.do(create(topic(assignments={1: [3, 1], 0: [2, 3]})))
    assert [(one.replicas, one.leader) for one in cluster.partitions()] == [((2, 3), 2), ((3, 1), 3)]


def test_replicas_that_are_away_are_not_in_sync() -> None:
    cluster = Cluster(1, 2, fenced=[3])
    cluster.do(create(topic(assignments={0: [3, 2]})))
    (partition,) = cluster.partitions()
    assert (partition.replicas, partition.isr, partition.leader) == ((3, 2), (2,), 2)


def test_new_partitions_go_to_living_brokers() -> None:
    cluster = Cluster(1, 2, fenced=[3])
    cluster.do(create(topic(partitions=8, factor=2)))
    assert {broker for one in cluster.partitions() for broker in one.replicas} == {1, 2}


LONG = "x" * 250


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed"),
        (topic("."), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: '.' is not allowed"),
        (topic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: '..' is not allowed"),
        (
            topic("a/b"),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            (
                "Topic name is invalid: 'a/b' contains one or more characters other than ASCII alphanumerics, '.', "
                "'_' and '-'"
            ),
        ),
        (
            topic(LONG),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic name is invalid: the length of '{LONG}' is longer than the max allowed length 249",
        ),
        (topic("there"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'there' already exists."),
        (topic("a.b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic 'a.b' collides with existing topic: a_b"),
        (
            topic(partitions=0),
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        ),
        (
            topic(partitions=-2),
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        ),
        (
            topic(factor=0),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            topic(factor=-2),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            topic(factor=1, assignments={0: [1]}),
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        ),
        (
            topic(partitions=1, assignments={0: [1]}),
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            topic(assignments=[(0, [1]), (0, [2])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Found multiple manual partition assignments for partition 0",
        ),
        (
            topic(assignments={0: [1], 2: [2]}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            topic(assignments={1: [1]}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            topic(assignments={0: []}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            topic(assignments={0: [1, 9]}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            topic(assignments={0: [1, 2, 1]}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (
            topic(assignments={0: [1, 2], 1: [1]}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            (
                "The manual partition assignment includes a partition with 1 replica(s), but this is not consistent "
                "with previous partitions, which have 2 replica(s)."
            ),
        ),
        (
            topic(assignments={0: [1], 1: [3]}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            (
                "All brokers specified in the manual partition assignment for partition 1 are fenced or in controlled "
                "shutdown."
            ),
        ),
        (topic(configs={"nonsense": "1"}), ErrorCode.INVALID_CONFIG, "Unknown topic config name: nonsense"),
        (
            topic(configs={"segment.ms": None}),
            ErrorCode.INVALID_CONFIG,
            "Null value not supported for topic configs: segment.ms",
        ),
        (
            topic(partitions=10_001),
            ErrorCode.POLICY_VIOLATION,
            "Excessively large number of partitions per request.",
        ),
    ],
)
def test_what_cannot_be_is_refused_as_kafka_refuses_it(wanted: CreatableTopic, code: int, message: str) -> None:
    cluster = Cluster(1, 2, fenced=[3]).with_topic("there", (1,)).with_topic("a_b", (1,))
    assert refusal(cluster, wanted) == (code, message)
    assert cluster.decide(create(wanted)).records == []


def test_more_replicas_than_brokers_are_refused() -> None:
    code, message = refusal(Cluster(1, 2, fenced=[3]), topic(factor=3))
    assert code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert "The target replication factor of 3 cannot be reached because only 2 broker(s)" in str(message)


def test_without_a_living_broker_nothing_is_created() -> None:
    assert refusal(Cluster(fenced=[1]), topic()) == (
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "Unable to replicate the partition 1 time(s): All brokers are currently fenced.",
    )


def test_a_setting_that_is_out_of_range_is_refused() -> None:
    code, message = refusal(Cluster(1), topic(configs={"segment.ms": "0"}))
    assert code == ErrorCode.INVALID_CONFIG
    assert "segment.ms" in str(message)


def test_one_bad_topic_does_not_spoil_the_others() -> None:
    cluster = Cluster(1)
    told = results(cluster, create(topic("good"), topic("bad", 0), topic("better")))
    assert {name: code for name, (code, _) in told.items()} == {
        "good": ErrorCode.NONE,
        "bad": ErrorCode.INVALID_PARTITIONS,
        "better": ErrorCode.NONE,
    }
    cluster.do(create(topic("good"), topic("bad", 0), topic("better")))
    assert list(cluster.image.topics) == ["good", "better"]


def test_a_name_that_is_given_twice_is_refused_once() -> None:
    decision = Cluster(1).decide(create(topic("twice"), topic("once"), topic("twice", 2)))
    told = [(one.name, one.error_code, one.error_message) for one in decision.reply.topics]
    assert told == [("once", 0, None), ("twice", ErrorCode.INVALID_REQUEST, "Duplicate topic name.")]
    assert [record.name for record in decision.records if isinstance(record, TopicRecord)] == ["once"]


@pytest.mark.parametrize("validate_only", [False, True])
def test_names_of_one_request_must_not_collide(validate_only: bool) -> None:
    told = results(Cluster(1), create(topic("a.b"), topic("a_b"), topic("ab"), validate_only=validate_only))
    assert told == {
        "a.b": (ErrorCode.NONE, None),
        "a_b": (ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic 'a_b' collides with existing topic: a.b"),
        "ab": (ErrorCode.NONE, None),
    }


def test_a_request_may_ask_for_ten_thousand_partitions_in_all() -> None:
    cluster = Cluster(1)
    assert results(cluster, create(topic("a", 9_990), topic("b", 10)))["b"] == (ErrorCode.NONE, None)
    too_many = results(cluster, create(topic("a", 9_998), topic("b"), topic("c", -5)))
    assert {code for code, _ in too_many.values()} == {ErrorCode.POLICY_VIOLATION}


def test_what_is_only_checked_is_not_created() -> None:
    decision = Cluster(1).decide(create(topic(partitions=4), topic("bad", 0), validate_only=True))
    good, bad = decision.reply.topics
    assert decision.records == []
    assert (good.error_code, good.num_partitions, good.replication_factor) == (ErrorCode.NONE, 4, 1)
    assert bad.error_code == ErrorCode.INVALID_PARTITIONS


# More partitions


def test_added_partitions_follow_the_others_with_as_many_replicas() -> None:
    cluster = Cluster(1, 2, 3).with_topic("first", (1, 2))
    before = cluster.partitions()
    assert cluster.do(more("first", 4)).results[0].error_code == ErrorCode.NONE
    after = cluster.partitions()
    assert after[0] is before[0]
    assert [one.index for one in after] == [0, 1, 2, 3]
    assert [one.replicas for one in after] == [(1, 2), (1, 2), (2, 3), (3, 2)]
    assert all(one.leader == one.replicas[0] for one in after)
    assert all(one.leader_epoch == one.partition_epoch == 0 for one in after)


def test_added_partitions_are_assigned_as_the_request_says() -> None:
    cluster = Cluster(1, 2, fenced=[3]).with_topic("first", (1, 2))
    cluster.do(more("first", 3, [[2, 1], [3, 1]]))
    assert [(one.replicas, one.isr, one.leader) for one in cluster.partitions()[1:]] == [
        ((2, 1), (2, 1), 2),
        ((3, 1), (1,), 1),
    ]


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        (more("other", 2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
        (more("first", 2), ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
        (
            more("first", 1),
            ErrorCode.INVALID_PARTITIONS,
            "The topic first currently has 2 partition(s); 1 would not be an increase.",
        ),
        (
            more("first", -1),
            ErrorCode.INVALID_PARTITIONS,
            "The topic first currently has 2 partition(s); -1 would not be an increase.",
        ),
        (
            more("first", 4, [[1, 2]]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            more("first", 3, [[1]]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            (
                "The manual partition assignment includes a partition with 1 replica(s), but this is not consistent "
                "with previous partitions, which have 2 replica(s)."
            ),
        ),
        (
            more("first", 3, [[1, 9]]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            more("first", 4, [[1, 2], [3, 4]]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            (
                "All brokers specified in the manual partition assignment for partition 3 are fenced or in controlled "
                "shutdown."
            ),
        ),
        (more("first", 10_003), ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."),
    ],
)
def test_partitions_that_cannot_be_added_are_refused(
    request_: CreatePartitionsRequest, code: int, message: str | None
) -> None:
    cluster = Cluster(1, 2, fenced=[3, 4]).with_topic("first", (1, 2), (2, 1))
    assert results(cluster, request_) == {request_.topics[0].name: (code, message)}
    assert cluster.decide(request_).records == []


def test_partitions_are_not_added_twice_in_one_request() -> None:
    cluster = Cluster(1).with_topic("first", (1,)).with_topic("second", (1,))
    request = replace(more("first", 2), topics=[_more("first", 2), _more("second", 2), _more("first", 3)])
    assert results(cluster, request) == {
        "second": (ErrorCode.NONE, None),
        "first": (ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
    }
    cluster.do(request)
    assert [len(cluster.partitions(name)) for name in ("first", "second")] == [1, 2]


def test_partitions_that_are_only_checked_are_not_added() -> None:
    cluster = Cluster(1).with_topic("first", (1,))
    decision = cluster.decide(more("first", 2, validate_only=True))
    assert decision.reply.results[0].error_code == ErrorCode.NONE
    assert decision.records == []
    assert results(cluster, more("first", 1, validate_only=True))["first"][0] == ErrorCode.INVALID_PARTITIONS


def test_a_topic_without_leader_can_grow() -> None:
    cluster = Cluster(1, fenced=[2]).with_topic("first", (2,))
    cluster.do(more("first", 2))
    assert cluster.partitions()[1].leader == 1 != NO_LEADER
