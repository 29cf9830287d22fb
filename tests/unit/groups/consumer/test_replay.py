"""What records add up to, also those of other releases, of cleaned logs, and of groups that are gone."""

import pytest

from levada.coordination.decision import Record
from levada.groups.consumer import ConsumerGroupSettings, ConsumerGroupState, Interval
from levada.groups.consumer.group_records import group_tombstones
from levada.groups.consumer.member import MemberState
from levada.groups.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    TopicPartitions,
)
from tests.unit.groups.consumer.harness import GROUP, Coordinator, state_of

TOPIC = bytes(16)


@pytest.fixture
def coordinator() -> Coordinator:
    coordinator = Coordinator(ConsumerGroupSettings(assignment_interval=Interval(0, 0, 15_000)))
    coordinator.topic("a", 4)
    return coordinator


def current(member_id: str, partitions: list[int], *, epochs: list[int] | None = None, state: int = 0) -> Record:
    topics = [TopicPartitions(topic_id=TOPIC, partitions=partitions, assignment_epochs=epochs)] if partitions else []
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=7,
        previous_member_epoch=6,
        state=state,
        assigned_partitions=topics,
        partitions_pending_revocation=[],
    )
    return Record(ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id=member_id), value)


@pytest.mark.parametrize("epochs", [None, [1]])
def test_releases_before_4_3_did_not_say_when_a_partition_was_assigned(
    coordinator: Coordinator, epochs: list[int] | None
) -> None:
    coordinator.write([current("m", [0, 1], epochs=epochs)])
    assert coordinator.group.members["m"].assigned == {TOPIC: {0: 7, 1: 7}}


def test_a_state_that_is_not_known_here_is_kept_as_such(coordinator: Coordinator) -> None:
    coordinator.write([current("m", [], state=9)])
    assert coordinator.group.members["m"].state is MemberState.UNKNOWN


def test_where_two_records_name_an_owner_the_later_is_right(coordinator: Coordinator) -> None:
    coordinator.write([current("m", [0]), current("n", [0]), current("m", [])])
    assert coordinator.group.is_owned(TOPIC, 0)
    coordinator.write([current("n", [])])
    assert not coordinator.group.is_owned(TOPIC, 0)


def test_the_end_of_what_is_not_there_changes_nothing(coordinator: Coordinator) -> None:
    keys = [
        ConsumerGroupMetadataKey(group_id=GROUP),
        ConsumerGroupPartitionMetadataKey(group_id=GROUP),
        ConsumerGroupMemberMetadataKey(group_id=GROUP, member_id="m"),
        ConsumerGroupTargetAssignmentMetadataKey(group_id=GROUP),
        ConsumerGroupTargetAssignmentMemberKey(group_id=GROUP, member_id="m"),
        ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="m"),
        ConsumerGroupRegularExpressionKey(group_id=GROUP, regular_expression="x"),
    ]
    coordinator.write([Record(key, None) for key in keys])
    assert not coordinator.groups.groups
    coordinator.beat("n", 0, "a")
    before = state_of(coordinator.groups)[GROUP]
    coordinator.write([Record(key, None) for key in keys[2:] if not hasattr(key, "assignment_epoch")])
    after = state_of(coordinator.groups)[GROUP]
    assert {name for name in before if before[name] != after[name]} == {"assignment_epoch", "assignment_timestamp_ms"}


def test_the_topics_that_older_releases_wrote_down_are_ended_with_the_next_look(coordinator: Coordinator) -> None:
    coordinator.beat("m", 0, "a")
    old = ConsumerGroupPartitionMetadataKey(group_id=GROUP)
    coordinator.write([Record(old, ConsumerGroupPartitionMetadataValue(topics=[]))])
    coordinator.topic("a", 5)
    coordinator.beat("m", 2)
    assert Record(old, None) in coordinator.written
    coordinator.topic("a", 6)
    coordinator.beat("m", 3)
    assert Record(old, None) not in coordinator.written


def test_a_group_is_forgotten_with_all_its_parts(coordinator: Coordinator) -> None:
    coordinator.beat("m", 0, "a", subscribed_topic_regex="x.*")
    coordinator.beat("m", -1)
    assert coordinator.group.state is ConsumerGroupState.EMPTY
    coordinator.write(group_tombstones(coordinator.group))
    assert not coordinator.groups.groups
    coordinator.restart()
    assert not coordinator.groups.groups


def test_a_group_with_members_can_be_forgotten_too(coordinator: Coordinator) -> None:
    coordinator.beat("m", 0, "a", subscribed_topic_regex="x.*")
    coordinator.write(group_tombstones(coordinator.group))
    assert not coordinator.groups.groups


def test_a_member_that_takes_another_name_frees_the_one_it_had(coordinator: Coordinator) -> None:
    coordinator.beat("m", 0, "a", instance_id="one")
    coordinator.beat("m", 0, "a", instance_id="two")
    assert coordinator.group.static_ids == {"two": "m"}
    assert coordinator.beat("n", 0, "a", instance_id="one").error_code == 0


def test_a_description_shows_what_members_have_and_what_they_are_to_have(coordinator: Coordinator) -> None:
    coordinator.beat("m", 0, "a", rack_id="r")
    coordinator.beat("n", 0, "a")
    coordinator.beat("m", 2)
    coordinator.topic("gone", 1)
    described = coordinator.groups.describe(GROUP, coordinator.now_ms)
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Reconciling", 3, 3)
    first, second = described.members
    assert [topic.partitions for topic in first.assignment.topic_partitions] == [[0, 1, 2, 3]]
    assert [topic.partitions for topic in first.target_assignment.topic_partitions] == [[0, 1]]
    assert [topic.topic_name for topic in second.target_assignment.topic_partitions] == ["a"]
    assert (first.rack_id, first.client_id, first.client_host, first.member_type) == ("r", "client", "/127.0.0.1", 1)
    coordinator.drop("a")
    assert coordinator.groups.describe(GROUP, coordinator.now_ms).members[0].assignment.topic_partitions == []
