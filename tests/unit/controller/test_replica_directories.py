"""Which directory of a broker has which replica: what brokers say of it, and what a failed one costs."""

from itertools import starmap

import pytest

from levada.controller.elections import UNASSIGNED
from levada.metadata.records import NO_CHANGE, NO_LEADER, PartitionChangeRecord
from levada.model.error_codes import ErrorCode
from levada.protocol.declare import NO_UUID
from levada.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from levada.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryToAssign,
    PartitionToAssign,
    TopicToAssign,
)
from levada.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from levada.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.unit.controller.clusters import Cluster, create, heartbeat, register, topic

A, B, C = (letter * 16 for letter in (b"a", b"b", b"c"))
PREFERRED, UNCLEAN = 0, 1


def two_directories(*others: int) -> Cluster:
    """Broker 1 has directories A and B, each of the others has C."""
    return Cluster(1, *others, log_dirs={1: [A, B]} | {other: [C] for other in others})


def assign(cluster: Cluster, *replicas: tuple[bytes, bytes, int], broker: int = 1) -> AssignReplicasToDirsRequest:
    """Of directory, topic id and partition."""
    known = cluster.image.brokers.get(broker)

    def told(directory: bytes, topic_id: bytes, index: int) -> DirectoryToAssign:
        topics = [TopicToAssign(topic_id=topic_id, partitions=[PartitionToAssign(partition_index=index)])]
        return DirectoryToAssign(id=directory, topics=topics)

    return AssignReplicasToDirsRequest(
        broker_id=broker,
        broker_epoch=known.epoch if known is not None else 0,
        directories=list(starmap(told, replicas)),
    )


def codes(reply: AssignReplicasToDirsResponse) -> list[int]:
    return [partition.error_code for one in reply.directories for found in one.topics for partition in found.partitions]


def first_id(cluster: Cluster) -> bytes:
    return cluster.image.topics["first"].topic_id


def fail(cluster: Cluster, *directories: bytes, broker: int = 1) -> None:
    epoch = cluster.image.brokers[broker].epoch
    cluster.do(heartbeat(broker, epoch, cluster.image.offset, offline_log_dirs=directories))


def led(cluster: Cluster, name: str = "first") -> list[tuple[int, tuple[int, ...]]]:
    return [(one.leader, one.isr) for one in cluster.partitions(name)]


# What a broker says of its replicas


def test_a_broker_says_where_its_replica_is_and_nothing_else_changes() -> None:
    cluster = two_directories(2).with_topic("first", (1, 2), directories=[UNASSIGNED, C])
    assert codes(cluster.do(assign(cluster, (B, first_id(cluster), 0)))) == [ErrorCode.NONE]
    (partition,) = cluster.partitions()
    assert partition.directories == (B, C)
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 0, (1, 2))


def test_what_is_known_already_is_not_written_again() -> None:
    cluster = two_directories().with_topic("first", (1,), directories=[A])
    decision = cluster.decide(assign(cluster, (A, first_id(cluster), 0)))
    assert (codes(decision.reply), decision.records) == ([ErrorCode.NONE], [])


def test_every_replica_has_its_own_answer() -> None:
    cluster = two_directories(2).with_topic("first", (1,), (2,), directories=[UNASSIGNED])
    topic_id = first_id(cluster)
    request = assign(
        cluster, (A, topic_id, 0), (A, topic_id, 1), (B, topic_id, 7), (B, topic_id, -1), (B, b"?" * 16, 0)
    )
    decision = cluster.decide(request)
    assert codes(decision.reply) == [
        ErrorCode.NONE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]
    assert [one.id for one in decision.reply.directories] == [A, A, B, B, B]
    (change,) = decision.records
    assert isinstance(change, PartitionChangeRecord)
    assert (change.partition_id, change.directories) == (0, [A])


@pytest.mark.parametrize(("broker", "epoch"), [(1, 99), (1, -1), (9, 0)])
def test_another_registration_may_not_say_where_replicas_are(broker: int, epoch: int) -> None:
    cluster = two_directories().with_topic("first", (1,))
    request = assign(cluster, (A, first_id(cluster), 0), broker=broker)
    request.broker_epoch = epoch
    decision = cluster.decide(request)
    assert (decision.reply.error_code, decision.reply.directories) == (ErrorCode.STALE_BROKER_EPOCH, [])
    assert decision.records == []


def test_a_replica_whose_directory_was_unknown_is_lost_when_the_broker_says_it_was_in_a_failed_one() -> None:
    cluster = two_directories(2).with_topic("first", (1,), directories=[UNASSIGNED])
    cluster.with_topic("second", (1, 2), directories=[UNASSIGNED, C])
    fail(cluster, B)
    assert led(cluster) == [(1, (1,))]
    second = cluster.image.topics["second"].topic_id
    cluster.do(assign(cluster, (B, first_id(cluster), 0), (B, second, 0)))
    assert led(cluster) == [(NO_LEADER, (1,))]
    assert led(cluster, "second") == [(2, (2,))]
    assert [one.directories for one in cluster.partitions("second")] == [(B, C)]


def test_a_replica_that_is_found_in_a_sound_directory_leads_again() -> None:
    cluster = two_directories().with_topic("first", (1,), directories=[B])
    fail(cluster, B)
    assert led(cluster) == [(NO_LEADER, (1,))]
    cluster.do(assign(cluster, (A, first_id(cluster), 0)))
    (partition,) = cluster.partitions()
    assert (partition.leader, partition.directories, partition.leader_epoch) == (1, (A,), 2)


def test_a_replica_that_was_not_in_sync_does_not_lead_by_being_found() -> None:
    cluster = two_directories(2).with_topic("first", (1, 2), isr=(2,), directories=[B, C])
    fail(cluster, C, broker=2)
    decision = cluster.decide(assign(cluster, (A, first_id(cluster), 0)))
    (change,) = decision.records
    assert isinstance(change, PartitionChangeRecord)
    assert (change.leader, change.isr, change.directories) == (NO_CHANGE, None, [A, C])


# Directories that fail


def test_a_failed_directory_takes_the_lead_from_the_replicas_in_it_alone() -> None:
    cluster = two_directories().with_topic("first", (1,), directories=[A]).with_topic("second", (1,), directories=[B])
    fail(cluster, B)
    assert cluster.image.brokers[1].log_dirs == (A,)
    assert (led(cluster), led(cluster, "second")) == ([(1, (1,))], [(NO_LEADER, (1,))])
    (partition,) = cluster.partitions("second")
    assert partition.leader_epoch == 1
    assert cluster.image.offline_replicas(partition) == [1]
    assert not cluster.image.brokers[1].is_fenced


def test_another_replica_leads_in_the_place_of_one_in_a_failed_directory() -> None:
    cluster = two_directories(2, 3).with_topic("first", (1, 2, 3), directories=[B, C, C])
    fail(cluster, B)
    assert led(cluster) == [(2, (2, 3))]
    fail(cluster, C, broker=2)
    assert led(cluster) == [(3, (3,))]


def test_a_follower_in_a_failed_directory_leaves_the_in_sync_set() -> None:
    cluster = two_directories(2).with_topic("first", (2, 1), directories=[C, B])
    fail(cluster, B)
    (partition,) = cluster.partitions()
    assert (partition.leader, partition.leader_epoch, partition.isr) == (2, 0, (2,))


def test_a_replica_in_a_failed_directory_is_not_elected_for_another() -> None:
    cluster = two_directories(2).with_topic("first", (2, 1), isr=(2, 1), directories=[C, B])
    cluster.with_topic("second", (2, 1), isr=(2,), directories=[C, B])
    fail(cluster, B)
    cluster.do(register(2, log_dirs=[C]))
    assert (led(cluster), led(cluster, "second")) == ([(NO_LEADER, (2,))], [(NO_LEADER, (2,))])


@pytest.mark.parametrize(
    ("kind", "code"),
    [(PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE), (UNCLEAN, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)],
)
def test_no_order_elects_a_replica_in_a_failed_directory(kind: int, code: ErrorCode) -> None:
    cluster = two_directories().with_topic("first", (1,), directories=[B])
    fail(cluster, B)
    wanted = [TopicPartitions(topic="first", partitions=[0])]
    decision = cluster.decide(ElectLeadersRequest(election_type=kind, topic_partitions=wanted))
    ((result,),) = (one.partition_result for one in decision.reply.replica_election_results)
    assert (result.error_code, decision.records) == (code, [])


def test_a_directory_that_failed_before_or_is_unknown_changes_nothing() -> None:
    cluster = two_directories().with_topic("first", (1,), directories=[A])
    fail(cluster, B)
    epoch = cluster.image.brokers[1].epoch
    decision = cluster.decide(heartbeat(1, epoch, cluster.image.offset, offline_log_dirs=[B, b"?" * 16]))
    assert decision.records == []


def test_a_broker_in_a_heartbeat_of_another_registration_keeps_its_directories() -> None:
    cluster = two_directories().with_topic("first", (1,), directories=[B])
    reply = cluster.do(heartbeat(1, 99, cluster.image.offset, offline_log_dirs=[B]))
    assert reply.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert cluster.image.brokers[1].log_dirs == (A, B)


# Brokers that are back


def test_a_broker_that_is_back_leads_only_what_is_in_directories_that_it_has() -> None:
    cluster = Cluster().with_topic("here", (1,), directories=[A]).with_topic("away", (1,), directories=[B])
    cluster.with_topic("old", (1,), directories=[NO_UUID]).with_topic("new", (1,), directories=[UNASSIGNED])
    epoch = cluster.do(register(1, log_dirs=[A])).broker_epoch
    cluster.do(heartbeat(1, epoch, epoch, offline_log_dirs=[B]))
    leaders = {name: cluster.partitions(name)[0].leader for name in cluster.image.topics}
    assert leaders == {"here": 1, "away": NO_LEADER, "old": 1, "new": 1}


def test_a_directory_that_is_back_has_its_leaders_back() -> None:
    cluster = two_directories().with_topic("first", (1,), directories=[B])
    fail(cluster, B)
    epoch = cluster.do(register(1, log_dirs=[A, B])).broker_epoch
    cluster.do(heartbeat(1, epoch, epoch))
    assert led(cluster) == [(1, (1,))]


def test_a_directory_that_fails_before_the_broker_has_work_is_noted_and_work_comes_later() -> None:
    cluster = Cluster().with_topic("first", (1,), (1,), directories=[B])
    epoch = cluster.do(register(1, log_dirs=[A, B])).broker_epoch
    cluster.do(heartbeat(1, epoch, epoch, offline_log_dirs=[B]))
    reply = cluster.do(heartbeat(1, epoch, cluster.image.offset, offline_log_dirs=[B]))
    assert not reply.is_fenced
    assert led(cluster) == [(NO_LEADER, (1,))] * 2


# New partitions, and other brokers


def test_a_new_partition_has_the_directory_of_brokers_that_have_one() -> None:
    cluster = two_directories(2)
    cluster.do(create(topic("first", assignments={0: [1, 2], 1: [2, 1]})))
    assert [one.directories for one in cluster.partitions()] == [(UNASSIGNED, C), (C, UNASSIGNED)]
    assert [one.directory_of(1) for one in cluster.partitions()] == [None, None]
    assert [one.directory_of(2) for one in cluster.partitions()] == [C, C]
    more = CreatePartitionsTopic(name="first", count=3, assignments=None)
    cluster.do(CreatePartitionsRequest(topics=[more], timeout_ms=0, validate_only=False))
    assert set(cluster.partitions()[2].directories) == {UNASSIGNED, C}


def test_a_broker_with_one_directory_left_has_no_choice_either() -> None:
    cluster = two_directories()
    fail(cluster, A)
    cluster.do(create(topic("first", 1, 1)))
    assert cluster.partitions()[0].directories == (B,)


@pytest.mark.parametrize(("wanted", "directories"), [([2, 1], (C, B)), ([1], (B,)), ([2], (C,))])
def test_a_replica_that_stays_keeps_its_directory(wanted: list[int], directories: tuple[bytes, ...]) -> None:
    cluster = two_directories(2).with_topic("first", (1, 2), directories=[B, C])
    target = ReassignablePartition(partition_index=0, replicas=wanted)
    cluster.do(AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="first", partitions=[target])]))
    assert cluster.partitions()[0].directories == directories


def test_no_replica_leads_when_the_one_that_stays_is_in_a_failed_directory() -> None:
    cluster = Cluster(1, 2, log_dirs={1: [A], 2: [C]})
    cluster.with_topic("first", (2, 1), directories=[C, A]).with_topic("second", (2, 1), directories=[C, B])
    for name in ("first", "second"):
        target = ReassignablePartition(partition_index=0, replicas=[1])
        cluster.do(AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=name, partitions=[target])]))
    assert (led(cluster), led(cluster, "second")) == ([(1, (1,))], [(NO_LEADER, (1,))])


# Replicas that are out of reach


def test_replicas_are_offline_on_brokers_that_do_not_live_and_in_failed_directories() -> None:
    cluster = Cluster(1, 2, fenced=[3], log_dirs={1: [A], 3: [C]})
    cluster.with_topic("first", (1, 2, 3, 4), directories=[B, C, C, C])
    cluster.with_topic("second", (1, 2), directories=[A, NO_UUID])
    # A broker that has not said what directories it has is taken to have the right ones.
    assert cluster.image.offline_replicas(cluster.partitions()[0]) == [1, 3, 4]
    assert cluster.image.offline_replicas(cluster.partitions("second")[0]) == []
