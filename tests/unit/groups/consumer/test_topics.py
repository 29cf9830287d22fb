"""Groups follow their topics."""

import pytest

from levada.groups.consumer import ConsumerGroupSettings, Interval
from levada.groups.consumer.topics import NO_TOPICS
from tests.unit.groups.consumer.harness import GROUP, Coordinator


@pytest.fixture
def coordinator() -> Coordinator:
    coordinator = Coordinator(ConsumerGroupSettings(assignment_interval=Interval(0, 0, 15_000)))
    coordinator.topic("a", 1)
    return coordinator


def test_a_topic_that_comes_later_is_assigned_when_it_comes(coordinator: Coordinator) -> None:
    assert coordinator.assigned(coordinator.beat("m", 0, "b")) == {}
    assert coordinator.group.metadata_hash == NO_TOPICS
    coordinator.topic("b", 2)
    assert coordinator.assigned(coordinator.beat("m", 2)) == {"b": [0, 1]}


def test_a_topic_that_grows_is_assigned_anew(coordinator: Coordinator) -> None:
    coordinator.beat("m", 0, "a")
    coordinator.topic("a", 3)
    grown = coordinator.beat("m", 2)
    assert (grown.member_epoch, coordinator.assigned(grown)) == (3, {"a": [0, 1, 2]})


def test_a_topic_that_is_deleted_is_given_up(coordinator: Coordinator) -> None:
    coordinator.topic("b", 1)
    coordinator.beat("m", 0, "a", "b")
    coordinator.drop("a")
    assert coordinator.assigned(coordinator.beat("m", 2)) == {"b": [0]}
    assert coordinator.beat("m", 2, owned={"b": [0]}).member_epoch == 3


def test_a_topic_that_is_made_again_is_another_topic(coordinator: Coordinator) -> None:
    coordinator.beat("m", 0, "a")
    coordinator.drop("a")
    coordinator.topic("a", 1)
    coordinator.beat("m", 2)
    again = coordinator.beat("m", 2, owned={})
    assert (again.member_epoch, coordinator.assigned(again)) == (3, {"a": [0]})


def test_topics_of_others_do_not_matter(coordinator: Coordinator) -> None:
    coordinator.beat("m", 0, "a")
    coordinator.topic("b", 5)
    assert coordinator.beat("m", 2).member_epoch == 2
    assert coordinator.written == []


def test_a_change_of_racks_gives_the_group_a_new_epoch(coordinator: Coordinator) -> None:
    coordinator.beat("m", 0, "a")
    coordinator.topic("a", 1, rack="r")
    assert coordinator.beat("m", 2).member_epoch == 3


def test_a_changed_leader_changes_nothing(coordinator: Coordinator) -> None:
    coordinator.beat("m", 0, "a")
    coordinator.topic("a", 1)
    assert coordinator.beat("m", 2).member_epoch == 2


def test_topics_are_looked_at_again_if_what_was_seen_was_not_written(coordinator: Coordinator) -> None:
    coordinator.beat("m", 0, "a")
    coordinator.topic("a", 2)
    write = coordinator.write
    coordinator.write = lambda records: None  # type: ignore[method-assign]
    assert coordinator.beat("m", 2).member_epoch == 3
    coordinator.write = write  # type: ignore[method-assign]
    assert coordinator.beat("m", 2).member_epoch == 3
    assert coordinator.group.epoch == 3


def test_the_hash_of_topics_outlives_the_coordinator(coordinator: Coordinator) -> None:
    coordinator.beat("m", 0, "a")
    coordinator.restart()
    assert coordinator.beat("m", 2).member_epoch == 2


def test_offsets_of_subscribed_topics_are_needed(coordinator: Coordinator) -> None:
    coordinator.beat("m", 0, "a", subscribed_topic_regex="c.*")
    coordinator.topic("c1", 1)
    coordinator.advance(11_000)
    coordinator.beat("m", 2)
    coordinator.beat("m", 2)
    group = coordinator.groups.groups[GROUP]
    assert group.is_subscribed("a")
    assert group.is_subscribed("c1")
    assert not group.is_subscribed("b")
