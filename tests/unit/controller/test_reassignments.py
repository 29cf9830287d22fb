"""Partitions that are given to other brokers: what is complete at once, and what is refused."""

import pytest

from levada.metadata.records import NO_LEADER
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
)
from tests.unit.controller.clusters import Cluster


def assign(
    replicas: list[int] | None, *, index: int = 0, may_resize: bool = True
) -> AlterPartitionReassignmentsRequest:
    target = ReassignablePartition(partition_index=index, replicas=replicas)
    return AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=may_resize, topics=[ReassignableTopic(name="first", partitions=[target])]
    )


def only(response: AlterPartitionReassignmentsResponse) -> ReassignablePartitionResponse:
    ((result,),) = (topic.partitions for topic in response.responses)
    return result


def test_a_partition_that_is_where_it_should_be_does_not_change() -> None:
    decision = Cluster(1, 2).with_topic("first", (1, 2)).decide(assign([1, 2]))
    assert only(decision.reply).error_code == ErrorCode.NONE
    assert not decision.records


def test_another_order_changes_who_should_lead_and_not_who_does() -> None:
    cluster = Cluster(1, 2).with_topic("first", (1, 2))
    assert only(cluster.do(assign([2, 1]))).error_code == ErrorCode.NONE
    (partition,) = cluster.partitions()
    assert (partition.replicas, partition.isr, partition.leader, partition.leader_epoch) == ((2, 1), (1, 2), 1, 0)


def test_a_replica_that_is_taken_away_leaves_in_sync_set_and_lead() -> None:
    cluster = Cluster(1, 2, 3).with_topic("first", (1, 2, 3))
    cluster.do(assign([3, 2]))
    (partition,) = cluster.partitions()
    assert (partition.replicas, partition.isr, partition.leader, partition.leader_epoch) == ((3, 2), (2, 3), 3, 1)
    assert len(partition.directories) == 2


def test_a_leader_that_stays_begins_a_new_epoch_when_another_is_taken_away() -> None:
    cluster = Cluster(1, 2, 3).with_topic("first", (1, 2, 3))
    cluster.do(assign([2, 1]))
    (partition,) = cluster.partitions()
    assert (partition.replicas, partition.isr, partition.leader, partition.leader_epoch) == ((2, 1), (1, 2), 1, 1)


def test_no_replica_leads_when_those_that_stay_are_away() -> None:
    cluster = Cluster(1, fenced=[2]).with_topic("first", (1, 2))
    cluster.do(assign([2]))
    (partition,) = cluster.partitions()
    assert (partition.replicas, partition.isr, partition.leader) == ((2,), (2,), NO_LEADER)


@pytest.mark.parametrize(
    ("replicas", "code", "text"),
    [
        ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "empty replica list"),
        ([1, 9], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 9, but no such broker is registered"),
        ([1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the broker 1 more than once"),
        ([1, 3], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Broker 3 has no copy"),
        ([2], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "in sync"),
    ],
)
def test_what_cannot_be_is_refused(replicas: list[int], code: ErrorCode, text: str) -> None:
    decision = Cluster(1, 2, 3).with_topic("first", (1, 2), isr=(1,)).decide(assign(replicas))
    result = only(decision.reply)
    assert (result.error_code, not decision.records) == (code, True)
    assert result.error_message is not None
    assert text in result.error_message


def test_the_number_of_replicas_stays_where_that_is_asked_for() -> None:
    cluster = Cluster(1, 2).with_topic("first", (1, 2))
    assert only(cluster.do(assign([1], may_resize=False))).error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert only(cluster.do(assign([2, 1], may_resize=False))).error_code == ErrorCode.NONE


def test_there_is_nothing_to_take_back() -> None:
    decision = Cluster(1).with_topic("first", (1,)).decide(assign(None))
    assert only(decision.reply).error_code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_unknown_partitions_do_not_keep_others_from_being_assigned() -> None:
    cluster = Cluster(1, 2).with_topic("first", (1, 2))
    request = assign([2, 1])
    request.topics += [
        *assign([1], index=7).topics,
        ReassignableTopic(name="x" * 300, partitions=request.topics[0].partitions),
    ]
    known, outside, unknown = (topic.partitions[0] for topic in cluster.do(request).responses)
    assert known.error_code == ErrorCode.NONE
    assert outside.error_message == "Unable to find partition first:7."
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert cluster.partitions()[0].replicas == (2, 1)
