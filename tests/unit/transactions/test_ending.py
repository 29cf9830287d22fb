"""EndTxn in both versions, every state, every outcome; and what is left to do then."""

import pytest

from levada.model.error_codes import ErrorCode
from levada.model.errors import CoordinatorNotAvailable, NotCoordinator
from levada.transactions import MARKERS, Marker, MarkerWork, TransactionState
from levada.transactions.machine import COMPLETION_RETRY_MS
from levada.transactions.transaction import MAX_CLIENT_EPOCH, MAX_EPOCH
from tests.unit.transactions.harness import (
    BUMPING,
    CLASSIC,
    FIRST_PRODUCER_ID,
    FROM_BROKERS,
    ID,
    A,
    B,
    Coordinator,
)
from tests.unit.transactions.test_initializing import at_epoch

NONE, CONCURRENT = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS
WRONG, FENCED = ErrorCode.INVALID_TXN_STATE, ErrorCode.PRODUCER_FENCED


def in_state(state: TransactionState, version: int = CLASSIC) -> Coordinator:
    coordinator = Coordinator()
    coordinator.init()
    if state is TransactionState.EMPTY:
        return coordinator
    coordinator.add(A, B, version=FROM_BROKERS if version >= BUMPING else 3)
    if state is TransactionState.ONGOING:
        return coordinator
    coordinator.end(
        commit=state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT), version=version
    )
    if state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT):
        coordinator.write_markers()
    assert coordinator.state() is state
    return coordinator


@pytest.mark.parametrize("version", range(CLASSIC + 1))
@pytest.mark.parametrize("commit", [True, False])
def test_the_classic_end_keeps_the_epoch(version: int, commit: bool) -> None:
    coordinator = Coordinator()
    coordinator.open(ID, partitions=(B, A))
    begun_ms = coordinator.now_ms
    coordinator.advance(9)
    reply = coordinator.end(commit=commit, version=version)
    assert (reply.error_code, reply.producer_id, reply.producer_epoch) == (0, -1, -1)
    assert coordinator.state() is (TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT)
    assert coordinator.work == [MarkerWork((Marker(ID, FIRST_PRODUCER_ID, 0, commit, 0, (A, B)),))]
    coordinator.write_markers()
    complete = coordinator.of()
    assert complete.state is (TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT)
    assert (complete.producer_epoch, complete.partitions) == (0, frozenset())
    assert (complete.started_ms, complete.updated_ms) == (begun_ms, begun_ms + 9)


@pytest.mark.parametrize("commit", [True, False])
def test_since_version_5_every_transaction_has_its_epoch(commit: bool) -> None:
    coordinator = Coordinator()
    coordinator.open(ID, version=FROM_BROKERS)
    reply = coordinator.end(commit=commit, version=BUMPING)
    assert (reply.error_code, reply.producer_id, reply.producer_epoch) == (0, FIRST_PRODUCER_ID, 1)
    assert coordinator.work == [MarkerWork((Marker(ID, FIRST_PRODUCER_ID, 1, commit, 2, (A,)),))]
    coordinator.write_markers()
    assert coordinator.identity() == (FIRST_PRODUCER_ID, 1)


@pytest.mark.parametrize(
    ("state", "on_commit", "on_abort"),
    [
        (TransactionState.EMPTY, WRONG, WRONG),
        (TransactionState.ONGOING, NONE, NONE),
        (TransactionState.PREPARE_COMMIT, CONCURRENT, CONCURRENT),
        (TransactionState.PREPARE_ABORT, CONCURRENT, CONCURRENT),
        (TransactionState.COMPLETE_COMMIT, NONE, WRONG),
        (TransactionState.COMPLETE_ABORT, WRONG, NONE),
    ],
)
def test_the_classic_table(state: TransactionState, on_commit: ErrorCode, on_abort: ErrorCode) -> None:
    for commit, code in ((True, on_commit), (False, on_abort)):
        coordinator = in_state(state)
        before = coordinator.of()
        assert coordinator.end(commit=commit).error_code == code
        if state is not TransactionState.ONGOING:
            assert coordinator.of() == before


@pytest.mark.parametrize(
    ("state", "retries", "commit", "code"),
    [
        (TransactionState.EMPTY, False, True, WRONG),
        (TransactionState.EMPTY, False, False, NONE),
        (TransactionState.EMPTY, True, True, FENCED),
        (TransactionState.EMPTY, True, False, FENCED),
        (TransactionState.ONGOING, False, True, NONE),
        (TransactionState.ONGOING, False, False, NONE),
        (TransactionState.ONGOING, True, True, FENCED),
        (TransactionState.ONGOING, True, False, FENCED),
        (TransactionState.PREPARE_COMMIT, False, True, CONCURRENT),
        (TransactionState.PREPARE_COMMIT, True, True, CONCURRENT),
        (TransactionState.PREPARE_COMMIT, True, False, CONCURRENT),
        (TransactionState.PREPARE_ABORT, True, False, CONCURRENT),
        (TransactionState.PREPARE_ABORT, True, True, CONCURRENT),
        (TransactionState.COMPLETE_COMMIT, True, True, NONE),
        (TransactionState.COMPLETE_COMMIT, True, False, WRONG),
        (TransactionState.COMPLETE_COMMIT, False, True, WRONG),
        (TransactionState.COMPLETE_COMMIT, False, False, NONE),
        (TransactionState.COMPLETE_ABORT, True, False, NONE),
        (TransactionState.COMPLETE_ABORT, True, True, WRONG),
        (TransactionState.COMPLETE_ABORT, False, False, NONE),
        (TransactionState.COMPLETE_ABORT, False, True, WRONG),
    ],
)
def test_the_table_of_version_2(state: TransactionState, retries: bool, commit: bool, code: ErrorCode) -> None:
    """A retry comes with the epoch before the bump."""
    coordinator = in_state(state, BUMPING)
    producer_id, epoch = coordinator.identity()
    reply = coordinator.end(commit=commit, at=(producer_id, epoch - retries), version=BUMPING)
    assert reply.error_code == code
    if code:
        assert (reply.producer_id, reply.producer_epoch) == (-1, -1)
    elif retries:
        assert (reply.producer_id, reply.producer_epoch) == (producer_id, epoch)
    else:
        assert (reply.producer_id, reply.producer_epoch) == (producer_id, epoch + 1)


@pytest.mark.parametrize(
    "state", [TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT]
)
def test_an_abort_of_nothing_bumps_the_epoch_and_sends_no_markers(state: TransactionState) -> None:
    coordinator = in_state(state, BUMPING)
    epoch = coordinator.of().producer_epoch
    coordinator.advance(5)
    coordinator.end(commit=False, version=BUMPING)
    assert [marker.partitions for work in coordinator.work for marker in work.markers] == [()]
    assert coordinator.of().started_ms == coordinator.now_ms
    coordinator.write_markers()
    assert (coordinator.state(), coordinator.of().producer_epoch) == (TransactionState.COMPLETE_ABORT, epoch + 1)


@pytest.mark.parametrize("version", [1, 2, CLASSIC, BUMPING])
def test_who_may_not_end_is_told_why(version: int) -> None:
    coordinator = Coordinator()
    coordinator.open(ID)
    producer_id, epoch = coordinator.identity()
    fenced = FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    unknown = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.end(name="", at=(1, 1), version=version).error_code == ErrorCode.INVALID_REQUEST
    assert coordinator.end(name="other", at=(1, 1), version=version).error_code == unknown
    assert coordinator.end(at=(producer_id + 1, epoch), version=version).error_code == unknown
    assert coordinator.end(at=(producer_id, epoch + 1), version=version).error_code == fenced
    assert coordinator.end(at=(producer_id, epoch - 1), version=version).error_code == fenced
    assert coordinator.state() is TransactionState.ONGOING


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("state", [TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT])
@pytest.mark.parametrize("ended_by", [CLASSIC, BUMPING])
def test_the_versions_differ_in_what_they_ask_first_while_markers_are_written(
    state: TransactionState, commit: bool, ended_by: int
) -> None:
    """As Apache 4.3.1 answers; since version 5 a producer hears no more than that it has to wait."""
    coordinator = in_state(state, ended_by)
    before = coordinator.of()
    producer_id, epoch = coordinator.identity()

    def end(producer_id: int, epoch: int, version: int) -> int:
        return coordinator.end(at=(producer_id, epoch), commit=commit, version=version).error_code

    assert end(producer_id + 1, epoch, CLASSIC) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert end(producer_id, epoch, CLASSIC) == CONCURRENT
    for other in (epoch - 2, epoch - 1, epoch + 1, epoch + 5):
        assert end(producer_id, other, CLASSIC) == FENCED
        assert end(producer_id, other, BUMPING) == CONCURRENT
    assert end(producer_id, epoch, BUMPING) == CONCURRENT
    assert end(producer_id + 1, epoch, BUMPING) == CONCURRENT
    assert coordinator.of() == before


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("state", [TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT])
def test_when_markers_are_written_other_epochs_are_fenced(state: TransactionState, commit: bool) -> None:
    coordinator = in_state(state, BUMPING)
    before = coordinator.of()
    producer_id, epoch = coordinator.identity()
    for other in (epoch - 2, epoch + 1, epoch + 5):
        assert coordinator.end(at=(producer_id, other), commit=commit, version=BUMPING).error_code == FENCED
    unknown = coordinator.end(at=(producer_id + 1, epoch), commit=commit, version=BUMPING)
    assert unknown.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.of() == before


def test_the_last_epoch_ends_with_another_producer_id() -> None:
    coordinator = at_epoch(MAX_CLIENT_EPOCH)
    coordinator.add(A, version=FROM_BROKERS)
    old = coordinator.identity()
    reply = coordinator.end(version=BUMPING)
    assert (reply.error_code, reply.producer_id, reply.producer_epoch) == (0, FIRST_PRODUCER_ID + 1, 0)
    assert coordinator.work[0].markers[0].producer_id == FIRST_PRODUCER_ID
    assert coordinator.work[0].markers[0].producer_epoch == MAX_EPOCH
    coordinator.load()
    coordinator.write_markers()
    assert coordinator.identity() == (FIRST_PRODUCER_ID + 1, 0)
    again = coordinator.end(at=old, version=BUMPING)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (0, FIRST_PRODUCER_ID + 1, 0)
    assert coordinator.end(at=old, commit=False, version=BUMPING).error_code == WRONG
    coordinator.init()
    assert coordinator.end(at=old, version=BUMPING).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_retry_with_the_old_id_is_fenced_once_the_id_is_initialized_with_epoch_0() -> None:
    """Rotation by InitProducerId leaves an Empty transaction, whose epoch the retry does not have."""
    coordinator = at_epoch(MAX_CLIENT_EPOCH)
    old = coordinator.identity()
    coordinator.init()
    assert coordinator.end(at=old, version=BUMPING).error_code == FENCED


def test_without_another_producer_id_at_hand_the_transaction_stays_open() -> None:
    coordinator = at_epoch(MAX_CLIENT_EPOCH)
    coordinator.add(A, version=FROM_BROKERS)
    coordinator.has_ids = False
    assert coordinator.end(version=BUMPING).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert coordinator.state() is TransactionState.ONGOING
    coordinator.has_ids = True
    assert coordinator.end(version=BUMPING).error_code == 0


def test_markers_wait_for_the_decision_to_be_committed() -> None:
    coordinator = Coordinator()
    coordinator.open(ID)
    coordinator.journal.held_at = coordinator.journal.end_offset
    request_token = coordinator.ask(
        lambda machine, token: machine.group_commit(token, coordinator.members(ID), coordinator.now_ms)
    )
    assert not coordinator.work
    assert request_token not in coordinator.replies
    coordinator.journal.held_at = None
    coordinator.shard.advance()
    coordinator.collect()
    assert request_token in coordinator.replies
    assert [work.transactional_ids for work in coordinator.work] == [(ID,)]


def test_an_end_that_cannot_be_written_has_no_markers() -> None:
    coordinator = Coordinator()
    coordinator.open(ID)
    coordinator.journal.refusal = CoordinatorNotAvailable("no replicas")
    members = coordinator.members(ID)
    refused = coordinator.run(lambda machine, token: machine.group_commit(token, members, coordinator.now_ms))
    assert refused.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (coordinator.state(), coordinator.work) == (TransactionState.ONGOING, [])


def test_a_completion_that_cannot_be_written_is_tried_again() -> None:
    coordinator = in_state(TransactionState.PREPARE_COMMIT)
    coordinator.journal.refusal = CoordinatorNotAvailable("no replicas")
    coordinator.write_markers()
    coordinator.advance(3 * COMPLETION_RETRY_MS)
    assert coordinator.state() is TransactionState.PREPARE_COMMIT
    coordinator.journal.refusal = None
    coordinator.advance(COMPLETION_RETRY_MS)
    assert coordinator.state() is TransactionState.COMPLETE_COMMIT


def test_a_new_coordinator_finishes_what_was_decided() -> None:
    coordinator = in_state(TransactionState.PREPARE_ABORT)
    (work,) = coordinator.work
    coordinator.load()
    assert coordinator.work == [work]
    coordinator.write_markers()
    coordinator.load()
    assert (coordinator.state(), coordinator.work) == (TransactionState.COMPLETE_ABORT, [])


def test_who_resigns_sends_no_markers() -> None:
    coordinator = Coordinator()
    coordinator.open(ID)
    coordinator.journal.held_at = coordinator.journal.end_offset
    members = coordinator.members(ID)
    coordinator.ask(lambda machine, token: machine.group_commit(token, members, coordinator.now_ms))
    coordinator.shard.resign()
    output = coordinator.shard.take_output()
    assert [reply for token, reply in output if token is MARKERS and not isinstance(reply, NotCoordinator)] == []
    assert len(output) == 2


@pytest.mark.parametrize("state", [TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.COMPLETE_COMMIT])
def test_markers_of_something_else_complete_nothing(state: TransactionState) -> None:
    coordinator = in_state(state)
    before = coordinator.of()
    coordinator.markers_written(ID, before.producer_epoch)
    coordinator.markers_written("other", 0)
    assert coordinator.of() == before


def test_markers_of_another_epoch_complete_nothing() -> None:
    coordinator = in_state(TransactionState.PREPARE_COMMIT)
    coordinator.markers_written(ID, 7)
    assert coordinator.state() is TransactionState.PREPARE_COMMIT


def test_markers_are_told_by_partition() -> None:
    work = MarkerWork((Marker("x", 1, 0, True, 2, (A, B)), Marker("y", 2, 0, True, 2, (B,))))
    assert work.by_partition() == {A: [work.markers[0]], B: [*work.markers]}
    assert work.transactional_ids == ("x", "y")
    assert repr(MARKERS) == "MARKERS"


@pytest.mark.parametrize("commit", [True, False])
def test_a_zombie_of_version_2_is_not_taken_for_its_classic_successor(commit: bool) -> None:
    coordinator = Coordinator()
    coordinator.init()
    zombie = coordinator.identity()
    coordinator.init()
    assert coordinator.identity() == (zombie[0], zombie[1] + 1)
    coordinator.add(A, version=3)
    coordinator.end(commit=commit, version=CLASSIC)
    coordinator.write_markers()
    reply = coordinator.end(commit=commit, version=BUMPING, at=zombie)
    assert (reply.error_code, reply.producer_epoch) == (FENCED, -1)
