"""Offsets that are committed with a transaction: no consumer sees them before, and nothing is lost of them after."""

from collections.abc import Callable

import pytest

from levada.coordination.decision import EndOfTransaction, Record
from levada.groups import CommittedOffset, GroupSettings, commit_record
from levada.groups.records import OffsetCommitKey
from levada.model.error_codes import ErrorCode
from levada.protocol.declare import NO_UUID
from levada.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.unit.groups.harness import GROUP, SESSION_MS, Coordinator
from tests.work import instructions

PRODUCER, OTHER = 7, 8


def commit_in_transaction(
    coordinator: Coordinator,
    offset: int,
    *,
    producer: int = PRODUCER,
    member: str = "",
    generation: int = -1,
    instance: str | None = None,
    topic_id: bytes = NO_UUID,
) -> ErrorCode:
    request = TxnOffsetCommitRequest(
        transactional_id="t",
        group_id=GROUP,
        producer_id=producer,
        producer_epoch=0,
        generation_id=generation,
        member_id=member,
        group_instance_id=instance,
        topics=[],
    )
    committed = CommittedOffset(offset, 0, "", coordinator.now_ms, topic_id=topic_id)
    records = [commit_record(GROUP, "topic", 0, committed, producer, 0)]
    token = coordinator.run(
        lambda machine, token: machine.commit_in_transaction(token, request, 5, records, coordinator.now_ms)
    )
    [code] = coordinator.replies[token]
    return ErrorCode(code)


def end(coordinator: Coordinator, *, is_commit: bool, producer: int = PRODUCER) -> None:
    marker = EndOfTransaction(producer, is_commit)
    coordinator.shard.follow(Record(marker, None), coordinator.journal.mark(marker))


@pytest.mark.parametrize("is_loaded", [False, True])
@pytest.mark.parametrize(("is_commit", "seen"), [(True, 5), (False, 1)])
def test_an_offset_counts_when_its_transaction_is_committed(is_commit: bool, seen: int, is_loaded: bool) -> None:
    coordinator = Coordinator()
    coordinator.commit(offset=1)
    assert commit_in_transaction(coordinator, 5) == ErrorCode.NONE
    if is_loaded:
        coordinator.load()
    assert coordinator.committed() == 1
    assert coordinator.machine.offsets.is_unstable(GROUP, "topic", 0)
    end(coordinator, is_commit=is_commit)
    if is_loaded:
        coordinator.load()
    assert coordinator.committed() == seen
    assert not coordinator.machine.offsets.is_unstable(GROUP, "topic", 0)


def test_of_two_commits_the_one_that_came_last_counts_whenever_the_transaction_ends() -> None:
    coordinator = Coordinator()
    commit_in_transaction(coordinator, 5)
    coordinator.commit(offset=3)
    end(coordinator, is_commit=True)
    assert coordinator.committed() == 3
    coordinator.load()
    assert coordinator.committed() == 3


def test_an_offset_is_unstable_until_all_transactions_on_it_have_ended() -> None:
    coordinator = Coordinator()
    commit_in_transaction(coordinator, 5)
    commit_in_transaction(coordinator, 5)
    commit_in_transaction(coordinator, 6, producer=OTHER)
    end(coordinator, is_commit=True)
    assert coordinator.machine.offsets.is_unstable(GROUP, "topic", 0)
    end(coordinator, is_commit=False, producer=OTHER)
    assert not coordinator.machine.offsets.is_unstable(GROUP, "topic", 0)
    assert coordinator.committed() == 5
    end(coordinator, is_commit=True, producer=99)


def test_a_deleted_offset_takes_nothing_else_of_its_transactions_along() -> None:
    coordinator = with_pending(2)
    commit_in_transaction(coordinator, 9, producer=OTHER)
    coordinator.run(lambda machine, token: machine.delete_offsets(token, GROUP, [("topic", 0)]))
    unstable = [coordinator.machine.offsets.is_unstable(GROUP, "topic", index) for index in range(2)]
    assert unstable == [False, True]
    end(coordinator, is_commit=True, producer=OTHER)
    assert coordinator.machine.offsets.has_pending(GROUP)
    end(coordinator, is_commit=True)
    assert not coordinator.machine.offsets.has_pending(GROUP)
    assert {index: one.offset for index, one in coordinator.machine.offsets.of(GROUP)["topic"].items()} == {1: 1}


def test_members_are_fenced_as_with_any_commit() -> None:
    coordinator = Coordinator()
    (member,) = coordinator.stable(1)
    assert commit_in_transaction(coordinator, 1, member=member, generation=1) == ErrorCode.NONE
    assert commit_in_transaction(coordinator, 1, member=member, generation=0) == ErrorCode.ILLEGAL_GENERATION
    assert commit_in_transaction(coordinator, 1, member="stranger", generation=1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert (
        commit_in_transaction(coordinator, 1, member=member, generation=1, instance="i") == ErrorCode.UNKNOWN_MEMBER_ID
    )
    # Producers of long ago say nothing of their member.
    assert commit_in_transaction(coordinator, 1) == ErrorCode.NONE


def test_a_member_commits_in_a_transaction_while_the_leader_assigns() -> None:
    coordinator = Coordinator()
    leader, _ = coordinator.prepared()
    assert coordinator.commit(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert commit_in_transaction(coordinator, 1, member=leader, generation=1) == ErrorCode.NONE


def test_a_generation_of_a_group_that_is_not_there_is_illegal() -> None:
    assert commit_in_transaction(Coordinator(), 1, member="m", generation=1) == ErrorCode.ILLEGAL_GENERATION


def test_what_a_transaction_may_still_change_does_not_expire() -> None:
    coordinator = Coordinator(GroupSettings(offsets_retention_ms=SESSION_MS, offsets_check_interval_ms=1_000))
    coordinator.commit(offset=1)
    commit_in_transaction(coordinator, 2)
    coordinator.advance(10 * SESSION_MS)
    assert coordinator.committed() == 1
    end(coordinator, is_commit=True)
    assert coordinator.committed() == 2
    coordinator.advance(10 * SESSION_MS)
    assert coordinator.committed() is None
    assert coordinator.find() is None


def delete_topic(coordinator: Coordinator) -> None:
    coordinator.run(lambda machine, _: machine.forget_topics(["topic"], coordinator.now_ms))


def delete_group(coordinator: Coordinator) -> None:
    coordinator.run(lambda machine, token: machine.delete_group(token, GROUP))


def delete_offset(coordinator: Coordinator) -> None:
    coordinator.run(lambda machine, token: machine.delete_offsets(token, GROUP, [("topic", 0)]))


DELETIONS = pytest.mark.parametrize("delete", [delete_topic, delete_group, delete_offset])


@DELETIONS
@pytest.mark.parametrize("is_loaded", [False, True])
@pytest.mark.parametrize("was_committed", [False, True])
def test_what_a_transaction_has_pending_goes_with_its_topic_its_group_or_the_offset(
    delete: Callable[[Coordinator], None], was_committed: bool, is_loaded: bool
) -> None:
    coordinator = Coordinator()
    if was_committed:
        coordinator.commit(offset=1)
    commit_in_transaction(coordinator, 5)
    commit_in_transaction(coordinator, 6, producer=OTHER)
    delete(coordinator)
    if is_loaded:
        coordinator.load()
    assert not coordinator.machine.offsets.is_unstable(GROUP, "topic", 0)
    assert not coordinator.machine.offsets.has_pending(GROUP)
    for producer in (PRODUCER, OTHER):
        end(coordinator, is_commit=True, producer=producer)
    assert coordinator.committed() is None
    coordinator.load()
    assert coordinator.committed() is None


@DELETIONS
def test_one_tombstone_ends_an_offset_and_all_that_is_pending_for_it(delete: Callable[[Coordinator], None]) -> None:
    coordinator = Coordinator()
    coordinator.commit(offset=1)
    commit_in_transaction(coordinator, 5)
    commit_in_transaction(coordinator, 6, producer=OTHER)
    before = len(coordinator.journal.records())
    delete(coordinator)
    written = coordinator.journal.records()[before:]
    commits = [(one.key.topic, one.value) for one in written if isinstance(one.key, OffsetCommitKey)]
    assert commits == [("topic", None)]


@DELETIONS
def test_what_is_committed_after_a_deletion_counts(delete: Callable[[Coordinator], None]) -> None:
    coordinator = Coordinator()
    commit_in_transaction(coordinator, 5)
    delete(coordinator)
    coordinator.advance(1)
    commit_in_transaction(coordinator, 9)
    end(coordinator, is_commit=True)
    assert coordinator.committed() == 9
    coordinator.load()
    assert coordinator.committed() == 9


def test_a_commit_for_a_topic_made_anew_outlives_the_deletion_that_is_still_under_way() -> None:
    coordinator = Coordinator()
    coordinator.commit(offset=1)
    deleted_ms = coordinator.now_ms
    coordinator.advance(1)
    commit_in_transaction(coordinator, 5)
    coordinator.run(lambda machine, _: machine.forget_topics(["topic"], deleted_ms))
    end(coordinator, is_commit=True)
    assert coordinator.committed() == 5


def with_pending(count: int) -> Coordinator:
    coordinator = Coordinator()
    request = TxnOffsetCommitRequest(
        transactional_id="t",
        group_id=GROUP,
        producer_id=PRODUCER,
        producer_epoch=0,
        generation_id=-1,
        member_id="",
        topics=[],
    )
    records = [
        commit_record(GROUP, "topic", index, CommittedOffset(index, 0, "", coordinator.now_ms), PRODUCER, 0)
        for index in range(count)
    ]
    coordinator.run(
        lambda machine, token: machine.commit_in_transaction(token, request, 5, records, coordinator.now_ms)
    )
    return coordinator


def end_it(coordinator: Coordinator) -> None:
    end(coordinator, is_commit=True)


@pytest.mark.parametrize("action", [end_it, delete_topic, delete_group])
def test_ending_or_deleting_many_offsets_of_a_transaction_takes_a_time_that_grows_with_their_number(
    action: Callable[[Coordinator], None],
) -> None:
    few, many = with_pending(250), with_pending(1_000)
    assert instructions(lambda: action(many)) < 6 * instructions(lambda: action(few))


def test_offsets_of_one_group_are_fetched_in_a_time_that_does_not_grow_with_what_others_have_pending() -> None:
    coordinator = with_pending(1_000)
    assert instructions(lambda: coordinator.machine.offsets.unstable_of("other", {})) < 100
    assert instructions(lambda: coordinator.machine.offsets.has_pending("other")) < 100
