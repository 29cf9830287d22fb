"""Offsets count from members that have what they commit for."""

import pytest

from levada.groups.consumer import Committer, ConsumerGroupSettings, Interval, check_commit, check_fetch
from levada.model.error_codes import ErrorCode
from tests.unit.groups.consumer.harness import Coordinator


@pytest.fixture
def coordinator() -> Coordinator:
    """m has 0 and 1 since epoch 2, n has 2 and 3 since epoch 3; both are at epoch 3."""
    coordinator = Coordinator(ConsumerGroupSettings(assignment_interval=Interval(0, 0, 15_000)))
    coordinator.topic("a", 4)
    coordinator.beat("m", 0, "a")
    coordinator.beat("n", 0, "a")
    coordinator.beat("m", 2, owned={"a": [0, 1]})
    coordinator.beat("n", 3)
    return coordinator


def commit(
    coordinator: Coordinator,
    member_id: str,
    epoch: int,
    *partitions: int,
    version: int = 9,
    is_transactional: bool = False,
) -> ErrorCode:
    committer = Committer(member_id, None, epoch, version, is_transactional)
    topic_id = coordinator.topic_id("a")
    return check_commit(coordinator.group, committer, [(topic_id, one) for one in partitions])


def test_a_member_commits_with_its_epoch(coordinator: Coordinator) -> None:
    assert commit(coordinator, "m", 3, 0, 1) == ErrorCode.NONE


def test_who_is_no_member_cannot_commit(coordinator: Coordinator) -> None:
    assert commit(coordinator, "stranger", 3) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(coordinator, "", -1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_epoch_to_come_is_stale(coordinator: Coordinator) -> None:
    assert commit(coordinator, "m", 4, 0) == ErrorCode.STALE_MEMBER_EPOCH


def test_an_older_epoch_will_do_for_what_the_member_had_then(coordinator: Coordinator) -> None:
    assert commit(coordinator, "m", 2, 0, 1) == ErrorCode.NONE
    assert commit(coordinator, "n", 2, 2) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(coordinator, "m", 1, 0) == ErrorCode.STALE_MEMBER_EPOCH


def test_an_older_epoch_is_refused_for_all_if_it_is_for_one(coordinator: Coordinator) -> None:
    assert commit(coordinator, "m", 2, 0, 2) == ErrorCode.STALE_MEMBER_EPOCH


def test_partitions_that_are_being_given_up_may_still_be_committed(coordinator: Coordinator) -> None:
    coordinator.beat("o", 0, "a")
    coordinator.beat("p", 0, "a")
    coordinator.beat("m", 3)
    assert coordinator.group.members["m"].revoking
    assert commit(coordinator, "m", 2, 0, 1) == ErrorCode.NONE


def test_a_static_member_that_left_for_now_cannot_commit(coordinator: Coordinator) -> None:
    coordinator.beat("s", 0, "a", instance_id="one")
    coordinator.beat("s", -2, instance_id="one")
    assert commit(coordinator, "s", 4) == ErrorCode.STALE_MEMBER_EPOCH


def test_versions_without_epochs_are_not_for_these_members(coordinator: Coordinator) -> None:
    assert commit(coordinator, "m", 3, 0, version=8) == ErrorCode.UNSUPPORTED_VERSION
    assert commit(coordinator, "m", 3, 0, version=3, is_transactional=True) == ErrorCode.NONE


def test_a_transaction_without_a_member_is_let_through(coordinator: Coordinator) -> None:
    assert commit(coordinator, "", -1, 0, is_transactional=True) == ErrorCode.NONE


def test_an_empty_group_takes_what_an_admin_commits(coordinator: Coordinator) -> None:
    coordinator.beat("m", -1)
    coordinator.beat("n", -1)
    assert commit(coordinator, "", -1, 0) == ErrorCode.NONE
    assert commit(coordinator, "m", 3, 0) == ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_are_fetched_with_the_members_epoch_or_without_a_member(coordinator: Coordinator) -> None:
    group = coordinator.group
    assert check_fetch(group, None, -1) == ErrorCode.NONE
    assert check_fetch(group, "m", 3) == ErrorCode.NONE
    assert check_fetch(group, "m", 2) == ErrorCode.STALE_MEMBER_EPOCH
    assert check_fetch(group, "stranger", 3) == ErrorCode.UNKNOWN_MEMBER_ID
    assert check_fetch(group, None, 3) == ErrorCode.UNKNOWN_MEMBER_ID
