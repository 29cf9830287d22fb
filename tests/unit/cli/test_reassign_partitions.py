"""Plans, throttles, states and proposals of `levada reassign-partitions`, with more brokers than one."""

import json
import random
from collections import Counter

import pytest

from levada.cli.kit.refusals import Refused
from levada.cli.reassign_partitions.actions import propose
from levada.cli.reassign_partitions.plan import check_plan, plan_text, read_plan, read_topics
from levada.cli.reassign_partitions.progress import (
    DirectoryProgress,
    directory_lines,
    ongoing_lines,
    partition_lines,
    partition_progress,
)
from levada.cli.reassign_partitions.throttles import ReplicaMove, moves, throttled_replicas
from levada.client.admin import (
    PartitionDescription,
    PartitionReassignment,
    Replica,
    ReplicaPlace,
    TopicDescription,
)
from levada.client.types import TopicPartition
from levada.metadata.image import BrokerState

OFFLINE = "There is likely an offline log directory on the broker."


def three(partition: int) -> TopicPartition:
    return TopicPartition("three", partition)


def described(*replicas: tuple[int, ...]) -> dict[str, TopicDescription]:
    partitions = tuple(
        PartitionDescription(index, members[0], 0, members, members, ()) for index, members in enumerate(replicas)
    )
    return {"three": TopicDescription("three", None, False, partitions, None)}


# Plans


def test_a_plan_is_written_and_read_back() -> None:
    replicas = {three(10): (2, 0), three(0): (0, 1)}
    text = plan_text(replicas, {Replica("three", 10, 0): "/data/b"})
    assert text == (
        '{"version":1,"partitions":[{"topic":"three","partition":0,"replicas":[0,1],"log_dirs":["any","any"]},'
        '{"topic":"three","partition":10,"replicas":[2,0],"log_dirs":["any","/data/b"]}]}'
    )
    plan = read_plan(json.loads(text), "--file")
    assert plan.replicas == replicas
    assert plan.directories == {Replica("three", 10, 0): "/data/b"}


def test_version_and_directories_may_be_left_out() -> None:
    plan = read_plan({"partitions": [{"topic": "three", "partition": 0, "replicas": [2, 1]}]}, "--file")
    assert (plan.replicas, plan.directories) == ({three(0): (2, 1)}, {})
    assert read_topics({"topics": [{"topic": "first"}]}, "--file") == ["first"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("3", "--file must hold a JSON object"),
        ('{"version": "1"}', '--file: "version" must be a whole number, not "1"'),
        ('{"version": 3}', "Not supported version field value 3"),
        ('{"partitions": [{"topic": "a", "partition": 0}]}', '--file: partitions[0] has no "replicas"'),
        (
            '{"partitions": [{"topic": "a", "partition": 0, "replicas": [0, 1], "log_dirs": ["any"]}]}',
            "Size of replicas list [0, 1] is different from size of log dirs list ['any'] for partition a-0",
        ),
    ],
)
def test_a_plan_that_is_no_plan_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(Refused) as refused:
        read_plan(json.loads(text), "--file")
    assert str(refused.value) == complaint


def test_all_lists_with_a_broker_twice_are_named() -> None:
    partitions = [{"topic": "a", "partition": number, "replicas": [0, 1, 0, 1]} for number in (0, 1)]
    with pytest.raises(Refused) as refused:
        check_plan(read_plan({"partitions": partitions}, "--file"))
    assert str(refused.value) == (
        "Partition replica lists may not contain duplicate entries: a-0 contains multiple entries for 0,1."
        " a-1 contains multiple entries for 0,1"
    )


# Throttles


def test_what_moves_already_is_copied_from_where_it_was() -> None:
    ongoing = {three(0): PartitionReassignment((3, 1, 2), adding=(3,), removing=(1, 2))}
    found = moves(ongoing, {three(0): (2, 4), three(1): (1, 2)}, {three(0): (3, 1, 2), three(1): (0, 1)})
    assert found == {
        three(0): ReplicaMove(frozenset({1, 2}), frozenset({4})),
        three(1): ReplicaMove(frozenset({0, 1}), frozenset({2})),
    }


def test_moves_of_others_keep_their_throttles() -> None:
    other = TopicPartition("other", 5)
    found = moves({other: PartitionReassignment((1, 2), (2,), (1,))}, {three(0): (1,)}, {three(0): (0,)})
    assert throttled_replicas(found) == {
        "other": {
            "leader.replication.throttled.replicas": "5:1",
            "follower.replication.throttled.replicas": "5:2",
        },
        "three": {
            "leader.replication.throttled.replicas": "0:0",
            "follower.replication.throttled.replicas": "0:1",
        },
    }


def test_throttled_replicas_are_sorted_as_text() -> None:
    found = {three(index): ReplicaMove(frozenset({1, 0}), frozenset()) for index in (2, 10)}
    (keys,) = throttled_replicas(found).values()
    assert keys["leader.replication.throttled.replicas"] == "10:0,10:1,2:0,2:1"
    assert keys["follower.replication.throttled.replicas"] == ""


# States


def test_partitions_are_complete_under_way_or_somewhere_else() -> None:
    targets = {three(0): (0, 1), three(1): (1, 2), three(2): (2, 0), three(7): (1,), TopicPartition("gone", 0): (1,)}
    ongoing = {three(1): PartitionReassignment((1, 2, 0), (2,), (0,))}
    found = partition_progress(targets, ongoing, described((0, 1), (1, 2, 0), (0, 2)))
    assert partition_lines(found) == [
        "Status of partition reassignment:",
        "There is no active reassignment of partition gone-0, but replica set is  rather than 1.",
        "Reassignment of partition three-0 is completed.",
        "Reassignment of partition three-1 is still in progress.",
        "There is no active reassignment of partition three-2, but replica set is 0,2 rather than 2,0.",
        "There is no active reassignment of partition three-7, but replica set is  rather than 1.",
    ]


@pytest.mark.parametrize(
    ("place", "is_under_way", "line"),
    [
        (
            ReplicaPlace(None, None),
            True,
            f"Partition three-0 is not found in any live log dir on broker 2. {OFFLINE}",
        ),
        (ReplicaPlace("/a", 0, "/b", 7), True, "Reassignment of replica three-0-2 is still in progress."),
        (
            ReplicaPlace("/a", 0, "/c", 7),
            True,
            "Partition three-0 on broker 2 is being moved to log dir /c instead of /b.",
        ),
        (ReplicaPlace("/a", 0), False, "Partition three-0 on broker 2 is not being moved from log dir /a to /b."),
        (ReplicaPlace("/b", 0), False, "Reassignment of replica three-0-2 completed successfully."),
    ],
)
def test_replicas_are_somewhere_on_their_way_to_a_directory(place: ReplicaPlace, is_under_way: bool, line: str) -> None:
    progress = DirectoryProgress("/b", place)
    assert progress.is_under_way == is_under_way
    assert directory_lines({Replica("three", 0, 2): progress}) == [line]


def test_moves_under_way_are_listed_in_order() -> None:
    ongoing = {
        three(10): PartitionReassignment((0, 1), (1,), ()),
        three(9): PartitionReassignment((2, 0, 1), (2,), (0, 1)),
    }
    assert ongoing_lines(ongoing) == [
        "Current partition reassignments:",
        "three-9: replicas: 2,0,1. adding: 2. removing: 0,1.",
        "three-10: replicas: 0,1. adding: 1.",
    ]


# Proposals


def brokers(*racks: str | None) -> list[BrokerState]:
    return [BrokerState(number, epoch=0, incarnation_id=b"", rack=rack) for number, rack in enumerate(racks)]


@pytest.mark.parametrize("seed", range(5))
def test_a_proposal_spreads_leaders_and_replicas(seed: int) -> None:
    current = {three(index): (0, 1) for index in range(6)} | {TopicPartition("first", 0): (0,)}
    proposed = propose(current, brokers(None, None, None), random.Random(seed))
    assert set(proposed) == set(current)
    assert len(proposed[TopicPartition("first", 0)]) == 1
    placed = [proposed[three(index)] for index in range(6)]
    assert all(len(set(replicas)) == 2 for replicas in placed)
    assert set(Counter(replicas[0] for replicas in placed).values()) == {2}


@pytest.mark.parametrize("seed", range(5))
def test_a_proposal_puts_replicas_on_different_racks(seed: int) -> None:
    current = {three(index): (0, 1) for index in range(8)}
    proposed = propose(current, brokers("north", "north", "south", "south"), random.Random(seed))
    assert all(len({broker // 2 for broker in replicas}) == 2 for replicas in proposed.values())


def test_there_must_be_as_many_brokers_as_replicas() -> None:
    with pytest.raises(Refused, match="only 0,1 can be used"):
        propose({three(0): (0, 1, 2)}, brokers(None, None), random.Random(0))
    with pytest.raises(Refused, match="none can be used"):
        propose({three(0): (0,)}, [], random.Random(0))
