"""InitProducerId: bump, fencing, epochs that run out, and who comes back after an error."""

import pytest

from levada.model.error_codes import ErrorCode
from levada.model.errors import CoordinatorNotAvailable
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.transactions import TransactionSettings, TransactionState
from levada.transactions.transaction import MAX_CLIENT_EPOCH, MAX_EPOCH
from tests.unit.transactions.harness import BUMPING, FIRST_PRODUCER_ID, ID, A, Coordinator
from tests.unit.transactions.journals import value_of

CLASSIC_SERVER = TransactionSettings(transaction_version=1)


def at_epoch(epoch: int, settings: TransactionSettings | None = None) -> Coordinator:
    """An initialized producer with this epoch."""
    coordinator = Coordinator(settings)
    coordinator.init()
    _set_epoch(coordinator, epoch)
    return coordinator


def _set_epoch(coordinator: Coordinator, epoch: int) -> None:
    records = coordinator.journal.records()
    value_of(records[-1]).producer_epoch = epoch
    coordinator.journal.append(records[-1:])
    coordinator.load()


def test_the_first_producer_of_an_id_begins_with_epoch_0() -> None:
    coordinator = Coordinator()
    reply = coordinator.init()
    assert (reply.error_code, reply.producer_id, reply.producer_epoch) == (0, FIRST_PRODUCER_ID, 0)
    transaction = coordinator.of()
    assert transaction.state is TransactionState.EMPTY
    assert transaction.previous_producer_id == FIRST_PRODUCER_ID
    assert (transaction.started_ms, transaction.updated_ms) == (-1, coordinator.now_ms)


def test_another_instance_keeps_the_id_and_gets_the_next_epoch() -> None:
    coordinator = Coordinator()
    coordinator.init()
    reply = coordinator.init(timeout_ms=5_000)
    assert (reply.producer_id, reply.producer_epoch) == (FIRST_PRODUCER_ID, 1)
    assert coordinator.of().timeout_ms == 5_000


def test_without_a_transactional_id_everybody_gets_a_producer_id() -> None:
    coordinator = Coordinator()
    replies = [coordinator.init(None, timeout_ms=0) for _ in range(2)]
    assert [(one.producer_id, one.producer_epoch) for one in replies] == [(1_000, 0), (1_001, 0)]
    assert not coordinator.journal.batches


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001, 2**31 - 1])
def test_a_timeout_out_of_range_is_refused(timeout_ms: int) -> None:
    coordinator = Coordinator()
    reply = coordinator.init(timeout_ms=timeout_ms)
    assert reply.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert (reply.producer_id, reply.producer_epoch) == (-1, -1)
    assert not coordinator.journal.batches


@pytest.mark.parametrize("claimed", [(7, -1), (-1, 7)])
def test_half_an_identity_is_refused(claimed: tuple[int, int]) -> None:
    assert Coordinator().init(claimed=claimed).error_code == ErrorCode.INVALID_REQUEST


def test_an_empty_id_is_refused() -> None:
    assert Coordinator().init("").error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("name", [ID, None])
def test_without_a_producer_id_at_hand_the_client_is_to_ask_again(name: str | None) -> None:
    coordinator = Coordinator()
    coordinator.has_ids = False
    reply = coordinator.init(name)
    assert (reply.error_code, reply.producer_epoch) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)
    assert not coordinator.machine.transactions


def test_an_open_transaction_is_aborted_first_and_its_producer_fenced() -> None:
    coordinator = Coordinator()
    coordinator.open(ID)
    old = coordinator.identity()
    assert coordinator.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.state() is TransactionState.PREPARE_ABORT
    (work,) = coordinator.work
    assert (work.markers[0].is_commit, work.markers[0].producer_epoch) == (False, 1)
    assert coordinator.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.end(at=old).error_code == ErrorCode.PRODUCER_FENCED
    coordinator.write_markers()
    reply = coordinator.init()
    assert (reply.error_code, reply.producer_epoch) == (0, 2)
    assert coordinator.add(A, at=old) is ErrorCode.PRODUCER_FENCED


def test_an_older_instance_cannot_abort_what_its_successor_has_begun() -> None:
    coordinator = Coordinator()
    older = coordinator.init()
    newer = coordinator.init()
    coordinator.add(A)
    reply = coordinator.init(claimed=(older.producer_id, older.producer_epoch))
    assert reply.error_code == ErrorCode.PRODUCER_FENCED
    assert coordinator.of().state is TransactionState.ONGOING
    # Its own instance may go on after an error, and begins by aborting.
    reply = coordinator.init(claimed=(newer.producer_id, newer.producer_epoch))
    assert reply.error_code == ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_classic_coordinator_fences_with_one_epoch_as_well() -> None:
    coordinator = Coordinator(CLASSIC_SERVER)
    coordinator.open(ID)
    assert coordinator.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.of().producer_epoch == 1
    assert coordinator.of().client_version == 0
    coordinator.write_markers()
    assert coordinator.init().producer_epoch == 2


def test_a_fence_that_cannot_be_written_changes_nothing() -> None:
    coordinator = Coordinator()
    coordinator.open(ID)
    coordinator.journal.refusal = CoordinatorNotAvailable("no replicas")
    request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000)
    refusal = coordinator.run(lambda machine, token: machine.init_producer_id(token, request, 5, coordinator.now_ms))
    assert refusal.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not coordinator.work
    assert (coordinator.state(), coordinator.of().producer_epoch) == (TransactionState.ONGOING, 0)


class TestAfterAnError:
    """The same instance comes back and says who it is (KIP-360)."""

    def test_it_gets_the_next_epoch(self) -> None:
        coordinator = Coordinator()
        coordinator.init()
        reply = coordinator.init(claimed=(FIRST_PRODUCER_ID, 0))
        assert (reply.error_code, reply.producer_epoch) == (0, 1)

    def test_it_gets_the_same_epoch_if_the_reply_was_lost(self) -> None:
        coordinator = Coordinator()
        coordinator.init()
        for _ in range(3):
            reply = coordinator.init(claimed=(FIRST_PRODUCER_ID, 0))
            assert (reply.error_code, reply.producer_epoch) == (0, 1)

    def test_it_is_fenced_by_an_instance_that_came_later(self) -> None:
        coordinator = Coordinator()
        coordinator.init()
        coordinator.init()
        assert coordinator.init(claimed=(FIRST_PRODUCER_ID, 0)).error_code == ErrorCode.PRODUCER_FENCED
        assert coordinator.of().producer_epoch == 1

    @pytest.mark.parametrize("version", [3, 4])
    def test_clients_of_old_know_another_word_for_fenced(self, version: int) -> None:
        coordinator = Coordinator()
        coordinator.init()
        coordinator.init()
        code = ErrorCode.PRODUCER_FENCED if version >= 4 else ErrorCode.INVALID_PRODUCER_EPOCH
        assert coordinator.init(claimed=(FIRST_PRODUCER_ID, 0), version=version).error_code == code

    def test_it_is_fenced_with_another_producer_id(self) -> None:
        coordinator = Coordinator()
        coordinator.init()
        assert coordinator.init(claimed=(7, 0)).error_code == ErrorCode.PRODUCER_FENCED

    def test_a_new_coordinator_does_not_know_that_it_was_a_repetition(self) -> None:
        coordinator = Coordinator()
        coordinator.init()
        coordinator.init(claimed=(FIRST_PRODUCER_ID, 0))
        coordinator.load()
        assert coordinator.init(claimed=(FIRST_PRODUCER_ID, 0)).error_code == ErrorCode.PRODUCER_FENCED

    def test_an_id_that_was_removed_begins_anew(self) -> None:
        reply = Coordinator().init(claimed=(7, 3))
        assert (reply.error_code, reply.producer_id, reply.producer_epoch) == (0, FIRST_PRODUCER_ID, 0)

    def test_it_goes_on_after_its_transaction_timed_out(self) -> None:
        """In version 2 the fence is the bump that it asks for."""
        coordinator = Coordinator()
        coordinator.open(ID)
        coordinator.advance(80_000)
        coordinator.write_markers()
        reply = coordinator.init(claimed=(FIRST_PRODUCER_ID, 0))
        assert (reply.error_code, reply.producer_epoch) == (0, 1)

    def test_a_decided_transaction_comes_before_the_question_who_asks(self) -> None:
        coordinator = Coordinator()
        coordinator.open(ID)
        coordinator.end()
        assert coordinator.init(claimed=(7, 0)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS


class TestEpochsRunOut:
    def test_the_last_epoch_of_a_client_leaves_one_to_fence_it(self) -> None:
        coordinator = at_epoch(MAX_CLIENT_EPOCH - 1)
        assert coordinator.init().producer_epoch == MAX_CLIENT_EPOCH
        reply = coordinator.init()
        assert (reply.producer_id, reply.producer_epoch) == (FIRST_PRODUCER_ID + 1, 0)
        assert coordinator.of().previous_producer_id == FIRST_PRODUCER_ID

    def test_the_instance_itself_gets_another_id_and_may_repeat_that(self) -> None:
        coordinator = at_epoch(MAX_CLIENT_EPOCH)
        for _ in range(2):
            reply = coordinator.init(claimed=(FIRST_PRODUCER_ID, MAX_CLIENT_EPOCH))
            assert (reply.error_code, reply.producer_id, reply.producer_epoch) == (0, FIRST_PRODUCER_ID + 1, 0)

    def test_after_another_instance_rotated_it_is_fenced(self) -> None:
        coordinator = at_epoch(MAX_CLIENT_EPOCH)
        coordinator.init()
        reply = coordinator.init(claimed=(FIRST_PRODUCER_ID, MAX_CLIENT_EPOCH))
        assert reply.error_code == ErrorCode.PRODUCER_FENCED

    def test_an_older_epoch_of_an_exhausted_id_fails_as_in_apache(self) -> None:
        coordinator = at_epoch(MAX_CLIENT_EPOCH)
        reply = coordinator.init(claimed=(FIRST_PRODUCER_ID, 5))
        assert reply.error_code == ErrorCode.UNKNOWN_SERVER_ERROR

    def test_no_other_id_at_hand_is_no_harm(self) -> None:
        coordinator = at_epoch(MAX_CLIENT_EPOCH)
        coordinator.has_ids = False
        assert coordinator.init().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert coordinator.identity() == (FIRST_PRODUCER_ID, MAX_CLIENT_EPOCH)

    def test_a_fence_with_the_last_epoch_goes_on_with_another_id(self) -> None:
        coordinator = at_epoch(MAX_CLIENT_EPOCH)
        coordinator.add(A)
        assert coordinator.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        assert coordinator.identity() == (FIRST_PRODUCER_ID, MAX_EPOCH)
        assert coordinator.of().next_producer_id == FIRST_PRODUCER_ID + 1
        coordinator.write_markers()
        assert coordinator.identity() == (FIRST_PRODUCER_ID + 1, 0)
        assert coordinator.init().producer_epoch == 1

    def test_a_classic_fence_with_the_last_epoch_leaves_the_next_id_to_the_client(self) -> None:
        coordinator = at_epoch(MAX_CLIENT_EPOCH, CLASSIC_SERVER)
        coordinator.add(A)
        coordinator.init()
        coordinator.write_markers()
        assert coordinator.identity() == (FIRST_PRODUCER_ID, MAX_EPOCH)
        reply = coordinator.init()
        assert (reply.producer_id, reply.producer_epoch) == (FIRST_PRODUCER_ID + 1, 0)

    @pytest.mark.parametrize("settings", [None, CLASSIC_SERVER])
    def test_an_epoch_beyond_the_last_is_not_bumped_further(self, settings: TransactionSettings | None) -> None:
        coordinator = at_epoch(MAX_EPOCH, settings)
        coordinator.add(A)
        assert coordinator.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        assert coordinator.of().producer_epoch == MAX_EPOCH
        coordinator.write_markers()
        assert coordinator.init().error_code == 0

    def test_a_commit_beyond_the_last_epoch_fails_as_in_apache(self) -> None:
        coordinator = at_epoch(MAX_EPOCH)
        coordinator.add(A)
        assert coordinator.end(version=BUMPING).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert coordinator.end(version=BUMPING, commit=False).error_code == 0

    def test_a_fence_without_an_id_at_hand_is_to_be_tried_again(self) -> None:
        coordinator = at_epoch(MAX_CLIENT_EPOCH)
        coordinator.add(A)
        coordinator.has_ids = False
        assert coordinator.init().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        coordinator.advance(100_000)
        assert coordinator.state() is TransactionState.ONGOING
        coordinator.has_ids = True
        coordinator.advance(10_000)
        assert coordinator.state() is TransactionState.PREPARE_ABORT


@pytest.mark.parametrize("state", [TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE])
def test_a_state_that_is_never_written_is_an_error_of_ours(state: TransactionState) -> None:
    coordinator = Coordinator()
    coordinator.init()
    records = coordinator.journal.records()
    value_of(records[-1]).transaction_status = state.number
    value_of(records[-1]).transaction_partitions = []
    coordinator.journal.append(records[-1:])
    coordinator.load()
    assert coordinator.init().error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert coordinator.add(A) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert coordinator.end().error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert coordinator.end(version=BUMPING).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
