"""Transactions that are open for too long, and ids that no producer uses any more."""

from levada.model.error_codes import ErrorCode
from levada.model.errors import CoordinatorNotAvailable
from levada.transactions import TransactionSettings, TransactionState
from levada.transactions.machine import ABORTS_PER_TURN, REMOVALS_PER_BATCH, TURN_INTERVAL_MS
from tests.unit.transactions.harness import BUMPING, FROM_BROKERS, ID, TIMEOUT_MS, A, Coordinator

SETTINGS = TransactionSettings()
CHECK_MS = SETTINGS.abort_check_interval_ms
WEEK_MS = SETTINGS.id_expiration_ms
HOUR_MS = SETTINGS.removal_check_interval_ms


def test_a_transaction_is_aborted_at_the_first_check_after_its_timeout() -> None:
    coordinator = Coordinator()
    coordinator.open(ID)
    coordinator.advance(TIMEOUT_MS)
    assert coordinator.state() is TransactionState.ONGOING
    coordinator.advance(CHECK_MS)
    assert coordinator.state() is TransactionState.PREPARE_ABORT
    assert [work.transactional_ids for work in coordinator.work] == [(ID,)]


def test_who_comes_too_late_is_fenced() -> None:
    coordinator = Coordinator()
    coordinator.open(ID)
    late = coordinator.identity()
    coordinator.advance(TIMEOUT_MS + CHECK_MS)
    assert coordinator.end(at=late).error_code == ErrorCode.PRODUCER_FENCED
    coordinator.write_markers()
    assert coordinator.state() is TransactionState.COMPLETE_ABORT
    assert coordinator.end(at=late).error_code == ErrorCode.PRODUCER_FENCED
    assert coordinator.add(A, at=late) is ErrorCode.PRODUCER_FENCED
    assert coordinator.verify(A, at=late) == [ErrorCode.PRODUCER_FENCED]


def test_who_bumps_epochs_learns_that_it_was_aborted() -> None:
    """Its commit is a retry of what has ended the other way."""
    coordinator = Coordinator()
    coordinator.open(ID, version=FROM_BROKERS)
    late = coordinator.identity()
    coordinator.advance(TIMEOUT_MS + CHECK_MS)
    coordinator.write_markers()
    assert coordinator.end(at=late, version=BUMPING).error_code == ErrorCode.INVALID_TXN_STATE
    reply = coordinator.end(at=late, commit=False, version=BUMPING)
    assert (reply.error_code, reply.producer_epoch) == (0, 1)


def test_time_counts_from_the_beginning_of_the_transaction() -> None:
    coordinator = Coordinator()
    coordinator.open(ID)
    coordinator.advance(TIMEOUT_MS - 1)
    coordinator.add(("c", 3))
    coordinator.advance(CHECK_MS + 1)
    assert coordinator.state() is TransactionState.PREPARE_ABORT


def test_a_new_coordinator_goes_on_counting() -> None:
    coordinator = Coordinator()
    coordinator.open(ID)
    coordinator.advance(TIMEOUT_MS)
    coordinator.load()
    coordinator.advance(CHECK_MS)
    assert coordinator.state() is TransactionState.PREPARE_ABORT


def test_the_largest_timeout_stands_for_none() -> None:
    coordinator = Coordinator(TransactionSettings(max_timeout_ms=2**31 - 1))
    coordinator.init(timeout_ms=2**31 - 1)
    coordinator.add(A)
    coordinator.sleep(2**32)
    assert coordinator.state() is TransactionState.ONGOING


def test_an_abort_that_cannot_be_written_comes_at_a_later_check() -> None:
    coordinator = Coordinator()
    coordinator.open(ID)
    coordinator.journal.refusal = CoordinatorNotAvailable("no replicas")
    coordinator.advance(TIMEOUT_MS + 3 * CHECK_MS)
    assert (coordinator.state(), coordinator.of().producer_epoch) == (TransactionState.ONGOING, 0)
    coordinator.journal.refusal = None
    coordinator.advance(CHECK_MS)
    assert (coordinator.state(), coordinator.of().producer_epoch) == (TransactionState.PREPARE_ABORT, 1)


def test_many_aborts_are_done_in_bits_with_a_batch_each() -> None:
    coordinator = Coordinator()
    names = [f"t{number}" for number in range(2 * ABORTS_PER_TURN + 1)]
    coordinator.open(*names)
    coordinator.now_ms += TIMEOUT_MS + CHECK_MS
    left = []
    for _ in range(4):
        coordinator.shard.expire(coordinator.now_ms)
        left.append(sum(coordinator.state(name) is TransactionState.ONGOING for name in names))
        coordinator.now_ms += 1
    assert left == [ABORTS_PER_TURN + 1, 1, 0, 0]
    assert [len(batch) for batch in coordinator.journal.batches[-len(names) :]] == [1] * len(names)
    coordinator.collect()
    assert len(coordinator.work) == len(names)


def test_a_check_in_the_middle_of_aborts_begins_anew() -> None:
    coordinator = Coordinator(TransactionSettings(abort_check_interval_ms=1))
    names = [f"t{number}" for number in range(ABORTS_PER_TURN + 10)]
    coordinator.open(*names)
    coordinator.now_ms += TIMEOUT_MS + 1
    coordinator.shard.expire(coordinator.now_ms)
    for name in names:
        if coordinator.state(name) is TransactionState.ONGOING:
            coordinator.end(name=name)
    coordinator.now_ms += 1
    coordinator.shard.expire(coordinator.now_ms)
    coordinator.collect()
    assert len(coordinator.work) == len(names)


def test_an_id_that_was_not_used_for_long_is_removed() -> None:
    coordinator = Coordinator()
    coordinator.init("empty")
    coordinator.open("committed", "aborted", "decided", "open")
    coordinator.end(name="committed")
    coordinator.end(name="aborted", commit=False)
    coordinator.write_markers()
    coordinator.end(name="decided")
    coordinator.sleep(WEEK_MS - 1)
    assert len(coordinator.machine.transactions) == 5
    coordinator.sleep(HOUR_MS)
    assert set(coordinator.machine.transactions) == {"decided", "open"}
    coordinator.load()
    assert set(coordinator.machine.transactions) == {"decided", "open"}
    reply = coordinator.init("empty")
    assert (reply.producer_id, reply.producer_epoch) == (1_005, 0)


def test_an_id_that_is_used_again_stays() -> None:
    coordinator = Coordinator()
    coordinator.init()
    coordinator.sleep(WEEK_MS - HOUR_MS)
    coordinator.init()
    coordinator.sleep(2 * HOUR_MS)
    assert ID in coordinator.machine.transactions


def test_many_removals_are_done_in_batches() -> None:
    coordinator = Coordinator()
    for number in range(REMOVALS_PER_BATCH + 1):
        coordinator.init(f"t{number}")
    coordinator.sleep(WEEK_MS + HOUR_MS)
    assert len(coordinator.machine.transactions) == 1
    coordinator.advance(TURN_INTERVAL_MS)
    assert not coordinator.machine.transactions
    assert [len(batch) for batch in coordinator.journal.batches[-2:]] == [REMOVALS_PER_BATCH, 1]


def test_batches_of_long_ids_have_fewer() -> None:
    coordinator = Coordinator()
    for number in range(10):
        coordinator.init(f"{number}" * 32_000)
    coordinator.sleep(WEEK_MS + HOUR_MS)
    assert len(coordinator.machine.transactions) == 1
    coordinator.advance(TURN_INTERVAL_MS)
    assert not coordinator.machine.transactions
    assert [len(batch) for batch in coordinator.journal.batches[-2:]] == [9, 1]


def test_a_removal_that_cannot_be_written_comes_at_a_later_check() -> None:
    coordinator = Coordinator()
    coordinator.init()
    coordinator.journal.refusal = CoordinatorNotAvailable("no replicas")
    coordinator.sleep(WEEK_MS + HOUR_MS)
    assert ID in coordinator.machine.transactions
    coordinator.journal.refusal = None
    coordinator.sleep(HOUR_MS)
    assert not coordinator.machine.transactions
