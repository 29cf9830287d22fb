"""Several transactions commit together or not at all."""

import pytest

from levada.model.error_codes import ErrorCode
from levada.transactions import GroupMember, TransactionSettings, TransactionState
from levada.transactions.group_commit import MAX_MEMBERS, group_of
from levada.transactions.transaction import MAX_CLIENT_EPOCH, record_of
from tests.unit.transactions.harness import BUMPING, FROM_BROKERS, TIMEOUT_MS, A, B, Coordinator
from tests.unit.transactions.journals import value_of
from tests.unit.transactions.test_upkeep import CHECK_MS

NAMES = ("x", "y", "z")
NONE, WRONG, FENCED = ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE, ErrorCode.PRODUCER_FENCED
UNKNOWN, OTHERS = ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.OPERATION_NOT_ATTEMPTED


def with_open_transactions(version: int = FROM_BROKERS) -> Coordinator:
    coordinator = Coordinator()
    coordinator.open("x", version=version)
    coordinator.open("y", "z", version=version, partitions=(A, B))
    return coordinator


def codes(coordinator: Coordinator, members: list[GroupMember]) -> list[ErrorCode]:
    outcome = coordinator.group_commit(members)
    found = [member.error_code for member in outcome.members]
    assert outcome.error_code is next((code for code in found if code not in (NONE, OTHERS)), NONE)
    return found


def test_all_members_are_decided_in_one_batch_with_one_piece_of_work() -> None:
    coordinator = with_open_transactions()
    outcome = coordinator.group_commit(coordinator.members(*NAMES))
    assert outcome.error_code is NONE
    assert [(one.producer_id, one.producer_epoch) for one in outcome.members] == [(1_000, 1), (1_001, 1), (1_002, 1)]
    assert len(coordinator.journal.batches[-1]) == 3
    assert {coordinator.state(name) for name in NAMES} == {TransactionState.PREPARE_COMMIT}
    (work,) = coordinator.work
    assert work.transactional_ids == NAMES
    assert [marker.transactional_id for marker in work.by_partition()[A]] == ["x", "y", "z"]
    assert [marker.transactional_id for marker in work.by_partition()[B]] == ["y", "z"]
    coordinator.write_markers()
    assert {coordinator.state(name) for name in NAMES} == {TransactionState.COMPLETE_COMMIT}


def test_classic_members_keep_their_epoch() -> None:
    coordinator = with_open_transactions(version=3)
    outcome = coordinator.group_commit(coordinator.members(*NAMES))
    assert [(one.producer_id, one.producer_epoch) for one in outcome.members] == [(1_000, 0), (1_001, 0), (1_002, 0)]
    assert {marker.transaction_version for marker in coordinator.work[0].markers} == {0}


@pytest.mark.parametrize("version", [3, FROM_BROKERS])
def test_who_repeats_it_gets_the_same_answer_and_changes_nothing(version: int) -> None:
    coordinator = with_open_transactions(version)
    members = coordinator.members(*NAMES)
    outcome = coordinator.group_commit(members)
    written = len(coordinator.journal.batches)
    (work,) = coordinator.work
    for _ in range(2):
        assert coordinator.group_commit(members) == outcome
        assert coordinator.group_commit(members[::-1]).members == outcome.members[::-1]
        coordinator.load()
        assert coordinator.work == [work]
    assert len(coordinator.journal.batches) == written
    coordinator.write_markers()
    assert coordinator.group_commit(members) == outcome
    coordinator.load()
    assert coordinator.group_commit(members) == outcome
    assert not coordinator.work


def test_it_is_the_same_answer_when_some_are_complete() -> None:
    coordinator = with_open_transactions()
    members = coordinator.members(*NAMES)
    outcome = coordinator.group_commit(members)
    coordinator.markers_written("y", 1)
    coordinator.load()
    assert coordinator.group_commit(members) == outcome
    assert [work.transactional_ids for work in coordinator.work] == [("x", "z")]


@pytest.mark.parametrize("version", [3, FROM_BROKERS])
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("is_complete", [True, False])
def test_a_member_that_ended_on_its_own_refuses_all(version: int, commit: bool, is_complete: bool) -> None:
    coordinator = with_open_transactions(version)
    members = coordinator.members(*NAMES)
    coordinator.end(name="y", commit=commit, version=4 if version == 3 else BUMPING)
    if is_complete:
        coordinator.write_markers()
    before = dict(coordinator.machine.transactions)
    assert codes(coordinator, members) == [OTHERS, WRONG, OTHERS]
    assert coordinator.machine.transactions == before


def test_a_member_that_committed_with_others_refuses_all() -> None:
    coordinator = with_open_transactions(version=3)
    members = coordinator.members(*NAMES)
    assert codes(coordinator, members[:2]) == [NONE, NONE]
    assert codes(coordinator, members) == [WRONG, WRONG, OTHERS]
    coordinator.write_markers()
    assert codes(coordinator, members) == [WRONG, WRONG, OTHERS]
    assert coordinator.state("z") is TransactionState.ONGOING


def test_a_fenced_member_refuses_all() -> None:
    coordinator = with_open_transactions()
    members = coordinator.members(*NAMES)
    coordinator.init("x")
    coordinator.write_markers()
    coordinator.init("x")
    assert codes(coordinator, members) == [FENCED, OTHERS, OTHERS]
    assert coordinator.state("y") is TransactionState.ONGOING


def test_a_member_that_timed_out_refuses_all() -> None:
    coordinator = Coordinator()
    coordinator.open("x", version=FROM_BROKERS)
    coordinator.advance(TIMEOUT_MS)
    coordinator.open("y", "z", version=FROM_BROKERS)
    members = coordinator.members(*NAMES)
    coordinator.advance(CHECK_MS)
    assert codes(coordinator, members) == [WRONG, OTHERS, OTHERS]
    coordinator.write_markers()
    assert codes(coordinator, members) == [WRONG, OTHERS, OTHERS]


def test_once_decided_no_timeout_aborts_a_member() -> None:
    coordinator = with_open_transactions()
    coordinator.group_commit(coordinator.members(*NAMES))
    coordinator.advance(10 * TIMEOUT_MS)
    assert {coordinator.state(name) for name in NAMES} == {TransactionState.PREPARE_COMMIT}


def test_members_without_a_driver_are_aborted_by_their_timeout() -> None:
    coordinator = with_open_transactions()
    coordinator.advance(TIMEOUT_MS + CHECK_MS)
    coordinator.write_markers()
    assert {coordinator.state(name) for name in NAMES} == {TransactionState.COMPLETE_ABORT}


def test_every_reason_is_told() -> None:
    coordinator = with_open_transactions()
    coordinator.init("empty")
    members = [
        GroupMember("absent", 1, 1),
        GroupMember("x", 999, 0),
        GroupMember("y", 1_001, 4),
        *coordinator.members("z", "empty"),
    ]
    assert codes(coordinator, members) == [UNKNOWN, UNKNOWN, FENCED, OTHERS, WRONG]


def test_a_request_without_sense_is_refused() -> None:
    coordinator = with_open_transactions()
    x, y, _ = coordinator.members(*NAMES)
    invalid = ErrorCode.INVALID_REQUEST
    assert codes(coordinator, [x, y, x]) == [invalid, OTHERS, invalid]
    assert codes(coordinator, [x, GroupMember("", 1, 1)]) == [OTHERS, invalid]
    assert set(codes(coordinator, [GroupMember(str(one), 1, 1) for one in range(MAX_MEMBERS + 1)])) == {invalid}
    outcome = coordinator.group_commit([])
    assert (outcome.error_code, outcome.members) == (invalid, ())


def test_a_member_with_the_last_epoch_goes_on_with_another_producer_id() -> None:
    coordinator = with_open_transactions()
    records = [record_of(coordinator.of(name)) for name in NAMES]
    for record in records[1:]:
        value_of(record).producer_epoch = MAX_CLIENT_EPOCH
    coordinator.journal.append(records)
    coordinator.load()
    members = coordinator.members(*NAMES)
    coordinator.has_ids = False
    lacking = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert codes(coordinator, members) == [OTHERS, lacking, OTHERS]
    assert {coordinator.state(name) for name in NAMES} == {TransactionState.ONGOING}
    coordinator.has_ids = True
    outcome = coordinator.group_commit(members)
    assert [(one.producer_id, one.producer_epoch) for one in outcome.members] == [(1_000, 1), (1_003, 0), (1_004, 0)]
    assert coordinator.group_commit(members) == outcome
    coordinator.write_markers()
    coordinator.load()
    assert coordinator.group_commit(members) == outcome


def test_two_groups_come_back_as_two_pieces_of_work() -> None:
    coordinator = with_open_transactions()
    coordinator.open("u", "v", "alone")
    coordinator.group_commit(coordinator.members("x", "u"))
    coordinator.group_commit(coordinator.members("v", "y", "z"))
    coordinator.end(name="alone")
    coordinator.load()
    assert sorted(work.transactional_ids for work in coordinator.work) == [("alone",), ("x", "u"), ("y", "z", "v")]


def test_the_next_transaction_has_no_part_in_the_group() -> None:
    coordinator = with_open_transactions(version=3)
    members = coordinator.members(*NAMES)
    coordinator.group_commit(members)
    coordinator.write_markers()
    coordinator.add(A, name="x")
    assert coordinator.of("x").group == b""
    assert codes(coordinator, members) == [OTHERS, WRONG, WRONG]
    coordinator.end(name="x")
    coordinator.load()
    assert [work.transactional_ids for work in coordinator.work] == [("x",)]


def test_a_group_is_known_by_its_members_and_no_other() -> None:
    x, y = GroupMember("x", 1, 0), GroupMember("y", 2, 0)
    others = [[x], [y], [x, GroupMember("y", 2, 1)], [x, GroupMember("y", 3, 0)], [GroupMember("xy", 1, 0), y]]
    assert group_of([x, y]) == group_of([y, x])
    assert len({group_of([x, y]), *map(group_of, others)}) == len(others) + 1


def test_the_group_is_kept_where_records_have_no_tags() -> None:
    """Clusters that have not raised the feature write version 0, but not of these."""
    coordinator = Coordinator(TransactionSettings(transaction_version=0))
    coordinator.open(*NAMES)
    assert {value[:2] for batch in coordinator.journal.batches for _, value in batch if value} == {b"\0\0"}
    coordinator.group_commit(coordinator.members(*NAMES))
    coordinator.load()
    assert [work.transactional_ids for work in coordinator.work] == [NAMES]
