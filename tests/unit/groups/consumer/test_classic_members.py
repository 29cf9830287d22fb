"""Members of the classic protocol in a group whose assignments the coordinator makes."""

import pytest

from levada.groups.consumer import (
    Committer,
    ConsumerGroupSettings,
    Interval,
    MigrationPolicy,
    check_commit,
    check_fetch,
)
from levada.groups.consumer.group_records import group_tombstones
from levada.groups.consumer.member import MemberState
from levada.model.error_codes import ErrorCode
from tests.unit.groups.consumer.classic_harness import SESSION_MS, assigned, beat, join, leave, sync
from tests.unit.groups.consumer.harness import REBALANCE_MS, Coordinator


@pytest.fixture
def coordinator() -> Coordinator:
    """m, of the new protocol, has all partitions of a at epoch 2."""
    coordinator = Coordinator(
        ConsumerGroupSettings(
            assignment_interval=Interval(0, 0, 15_000), migration_policy=MigrationPolicy.UPGRADE, max_size=4
        )
    )
    coordinator.topic("a", 4)
    coordinator.beat("m", 0, "a")
    return coordinator


def share(coordinator: Coordinator) -> None:
    """c has joined and has its half; both are at epoch 3."""
    join(coordinator, "c", "a")
    sync(coordinator, "c", 3)
    coordinator.beat("m", 2, owned={"a": [0, 1]})
    join(coordinator, "c", "a")
    sync(coordinator, "c", 3)


def test_a_member_gets_its_id_before_it_joins(coordinator: Coordinator) -> None:
    first = join(coordinator, "", "a", version=4)
    assert (first.error_code, first.protocol_name) == (ErrorCode.MEMBER_ID_REQUIRED, "")
    assert first.member_id
    assert list(coordinator.group.members) == ["m"]
    second = join(coordinator, first.member_id, "a")
    assert (second.error_code, second.member_id) == (ErrorCode.NONE, first.member_id)


def test_old_versions_join_with_an_id_that_is_made_for_them(coordinator: Coordinator) -> None:
    joined = join(coordinator, "", "a", version=3)
    assert joined.error_code == ErrorCode.NONE
    assert joined.member_id in coordinator.group.members


def test_a_join_is_answered_at_once_and_no_member_leads(coordinator: Coordinator) -> None:
    joined = join(coordinator, "c", "a", protocols=("range", "sticky"))
    assert (joined.generation_id, joined.protocol_type, joined.protocol_name) == (3, "consumer", "range")
    assert (joined.leader, joined.members) == ("", [])


def test_a_member_gets_what_is_free_and_is_called_when_there_is_more(coordinator: Coordinator) -> None:
    join(coordinator, "c", "a")
    synced = sync(coordinator, "c", 3)
    assert (synced.error_code, assigned(synced.assignment)) == (ErrorCode.NONE, {})
    assert (synced.protocol_type, synced.protocol_name) == ("consumer", "range")
    assert beat(coordinator, "c", 3) == ErrorCode.NONE
    coordinator.beat("m", 2, owned={"a": [0, 1]})
    assert beat(coordinator, "c", 3) == ErrorCode.REBALANCE_IN_PROGRESS
    assert join(coordinator, "c", "a").generation_id == 3
    assert assigned(sync(coordinator, "c", 3).assignment) == {"a": [2, 3]}
    assert beat(coordinator, "c", 3) == ErrorCode.NONE


def test_a_member_is_called_to_give_up_and_called_again_when_it_has_not(coordinator: Coordinator) -> None:
    share(coordinator)
    coordinator.beat("n", 0, "a")
    coordinator.beat("o", 0, "a")
    assert beat(coordinator, "c", 3) == ErrorCode.REBALANCE_IN_PROGRESS
    join(coordinator, "c", "a", owned={"a": [2, 3]})
    assert coordinator.group.members["c"].state is MemberState.UNREVOKED_PARTITIONS
    assert assigned(sync(coordinator, "c", 3).assignment) == {"a": [2]}
    assert beat(coordinator, "c", 3) == ErrorCode.REBALANCE_IN_PROGRESS
    assert join(coordinator, "c", "a", owned={"a": [2]}).generation_id == 5
    assert assigned(sync(coordinator, "c", 5).assignment) == {"a": [2]}
    assert beat(coordinator, "c", 5) == ErrorCode.NONE


def test_a_sync_that_comes_too_late_begins_with_a_join_again(coordinator: Coordinator) -> None:
    join(coordinator, "c", "a")
    coordinator.beat("n", 0, "a")
    assert sync(coordinator, "c", 3).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_generation_must_be_the_members(coordinator: Coordinator) -> None:
    share(coordinator)
    assert sync(coordinator, "c", 2).error_code == ErrorCode.ILLEGAL_GENERATION
    assert beat(coordinator, "c", 4) == ErrorCode.ILLEGAL_GENERATION


def test_a_sync_must_be_for_what_was_joined_with(coordinator: Coordinator) -> None:
    share(coordinator)
    assert sync(coordinator, "c", 3, protocol="sticky").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert sync(coordinator, "c", 3, type_="connect").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert sync(coordinator, "c", 3, type_=None, protocol=None).error_code == ErrorCode.NONE


def test_members_of_the_new_protocol_do_not_speak_the_old_one(coordinator: Coordinator) -> None:
    assert sync(coordinator, "m", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert beat(coordinator, "m", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert beat(coordinator, "stranger", 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_join_must_be_a_consumers_and_understand_the_other_classic_members(coordinator: Coordinator) -> None:
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert join(coordinator, "c", "a", type_="connect").error_code == inconsistent
    assert join(coordinator, "c", "a", protocols=()).error_code == inconsistent
    assert join(coordinator, "c", "a", metadata=b"x").error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    join(coordinator, "c", "a", protocols=("range", "sticky"))
    assert join(coordinator, "d", "a", protocols=("cooperative",)).error_code == inconsistent
    assert join(coordinator, "d", "a", protocols=("cooperative", "sticky")).error_code == ErrorCode.NONE
    assert join(coordinator, "e", "a", protocols=("range",)).error_code == inconsistent


def test_no_classic_member_may_join_where_migration_is_disabled(coordinator: Coordinator) -> None:
    coordinator.groups.reconfigure(ConsumerGroupSettings(migration_policy=MigrationPolicy.DISABLED))
    assert join(coordinator, "c", "a").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_full_group_is_full_for_classic_members_too(coordinator: Coordinator) -> None:
    for member_id in ("c", "d", "e"):
        join(coordinator, member_id, "a")
    assert join(coordinator, "f", "a").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert join(coordinator, "e", "a").error_code == ErrorCode.NONE


def test_a_member_that_does_not_join_again_in_time_is_gone(coordinator: Coordinator) -> None:
    share(coordinator)
    coordinator.beat("n", 0, "a")
    for _ in range(REBALANCE_MS // 5_000):
        assert beat(coordinator, "c", 3) == ErrorCode.REBALANCE_IN_PROGRESS
        coordinator.beat("m", 3)
        coordinator.advance(5_000)
    assert "c" not in coordinator.group.members
    coordinator.advance(500)
    assert not coordinator.groups._context.told_to_join


def test_a_member_that_does_not_sync_in_time_is_gone(coordinator: Coordinator) -> None:
    join(coordinator, "c", "a")
    for _ in range(REBALANCE_MS // 5_000):
        assert beat(coordinator, "c", 3) == ErrorCode.NONE
        coordinator.beat("m", 2)
        coordinator.advance(5_000)
    assert "c" not in coordinator.group.members


def test_a_member_that_has_done_both_stays(coordinator: Coordinator) -> None:
    share(coordinator)
    for _ in range(3 * REBALANCE_MS // 5_000):
        assert beat(coordinator, "c", 3) == ErrorCode.NONE
        coordinator.beat("m", 3)
        coordinator.advance(5_000)
    assert list(coordinator.group.members) == ["m", "c"]


def test_its_session_is_its_own(coordinator: Coordinator) -> None:
    share(coordinator)
    coordinator.advance(SESSION_MS)
    assert list(coordinator.group.members) == ["m"]


def test_members_of_either_protocol_can_be_made_to_leave(coordinator: Coordinator) -> None:
    share(coordinator)
    coordinator.beat("s", 0, "a", instance_id="one")
    codes = leave(coordinator, ("c", None), ("stranger", None), ("", "one"), ("s", "two"), ("t", "one"))
    assert codes == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    ]
    assert list(coordinator.group.members) == ["m"]


def test_a_static_member_may_change_to_the_classic_protocol_and_back(coordinator: Coordinator) -> None:
    coordinator.beat("s", 0, "a", instance_id="one")
    classic = join(coordinator, "", "a", instance="one")
    assert coordinator.group.static_ids == {"one": classic.member_id}
    assert coordinator.group.members[classic.member_id].uses_classic_protocol
    assert beat(coordinator, "s", 3, instance="one") == ErrorCode.FENCED_INSTANCE_ID
    assert beat(coordinator, classic.member_id, 3, instance="two") == ErrorCode.UNKNOWN_MEMBER_ID
    back = coordinator.beat("s2", 0, "a", instance_id="one")
    assert back.error_code == ErrorCode.NONE
    assert not coordinator.group.members["s2"].uses_classic_protocol
    assert join(coordinator, classic.member_id, "a", instance="one").error_code == ErrorCode.FENCED_INSTANCE_ID


def test_commits_of_classic_members_are_fenced_by_generation(coordinator: Coordinator) -> None:
    share(coordinator)
    partition = (coordinator.topic_id("a"), 2)
    codes = [
        check_commit(coordinator.group, Committer("c", None, generation, 8), [partition]) for generation in (3, 2, 4)
    ]
    assert codes == [ErrorCode.NONE, ErrorCode.ILLEGAL_GENERATION, ErrorCode.ILLEGAL_GENERATION]
    assert check_fetch(coordinator.group, "c", 2) == ErrorCode.ILLEGAL_GENERATION


def test_a_group_that_is_not_there_knows_no_members(coordinator: Coordinator) -> None:
    coordinator.write(group_tombstones(coordinator.group))
    assert sync(coordinator, "c", 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert beat(coordinator, "c", 3) == ErrorCode.UNKNOWN_MEMBER_ID
    assert leave(coordinator, ("c", None)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert join(coordinator, "c", "a").error_code == ErrorCode.GROUP_ID_NOT_FOUND
