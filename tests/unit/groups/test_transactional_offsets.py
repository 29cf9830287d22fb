"""Offsets that are committed with a transaction: nobody sees them before, and nothing is lost of them after."""

import pytest

from levada.coordination.decision import EndOfTransaction, Record
from levada.groups import CommittedOffset, GroupSettings, NewOffset
from levada.model.errors import ErrorCode
from levada.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.unit.groups.harness import GROUP, SESSION_MS, Coordinator

PRODUCER, OTHER = 7, 8


def commit_in_transaction(
    coordinator: Coordinator,
    offset: int,
    *,
    producer: int = PRODUCER,
    member: str = "",
    generation: int = -1,
    instance: str | None = None,
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
    new = [NewOffset("topic", 0, CommittedOffset(offset, 0, "", coordinator.now_ms))]
    token = coordinator.run(
        lambda machine, token: machine.commit_in_transaction(token, request, 5, new, coordinator.now_ms)
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
