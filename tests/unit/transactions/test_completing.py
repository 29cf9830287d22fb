"""Transactions whose markers are all written, several at once."""

from levada.model.errors import RecordTooLarge
from levada.transactions import MarkerWork, Transaction, TransactionState
from levada.transactions.machine import COMPLETION_RETRY_MS
from levada.transactions.records import NO_EPOCH
from tests.unit.transactions.harness import FROM_BROKERS, Coordinator

NAMES = ("x", "y", "z")


def committed_together() -> tuple[Coordinator, MarkerWork]:
    coordinator = Coordinator()
    coordinator.open(*NAMES, version=FROM_BROKERS)
    coordinator.group_commit(coordinator.members(*NAMES))
    return coordinator, coordinator.work.pop()


def complete(coordinator: Coordinator, work: MarkerWork) -> None:
    now_ms = coordinator.now_ms
    coordinator.shard.run(lambda machine: machine.all_markers_written(work.markers, now_ms), now_ms)


def states(coordinator: Coordinator) -> list[TransactionState]:
    return [coordinator.of(name).state for name in NAMES]


def test_the_members_of_a_group_are_completed_by_one_batch() -> None:
    coordinator, work = committed_together()
    written = len(coordinator.journal.batches)
    complete(coordinator, work)
    assert states(coordinator) == [TransactionState.COMPLETE_COMMIT] * 3
    assert [len(batch) for batch in coordinator.journal.batches[written:]] == [3]


def test_those_that_are_complete_already_are_left_alone() -> None:
    coordinator, work = committed_together()
    coordinator.markers_written("y", coordinator.of("y").producer_epoch)
    complete(coordinator, work)
    assert len(coordinator.journal.batches[-1]) == 2
    written = len(coordinator.journal.batches)
    complete(coordinator, work)
    assert len(coordinator.journal.batches) == written


def test_a_batch_that_cannot_be_written_is_written_member_by_member_later() -> None:
    coordinator, work = committed_together()
    coordinator.journal.refusal = RecordTooLarge("too large together")
    complete(coordinator, work)
    assert states(coordinator) == [TransactionState.PREPARE_COMMIT] * 3
    coordinator.journal.refusal = None
    written = len(coordinator.journal.batches)
    coordinator.shard.expire(coordinator.now_ms + COMPLETION_RETRY_MS)
    assert states(coordinator) == [TransactionState.COMPLETE_COMMIT] * 3
    assert [len(batch) for batch in coordinator.journal.batches[written:]] == [1, 1, 1]


def test_what_a_coordinator_knows_is_what_the_next_one_reads() -> None:
    """But for the epoch before the last, which is in no record."""
    coordinator, work = committed_together()

    def known() -> list[Transaction]:
        return [coordinator.of(name)._replace(last_producer_epoch=NO_EPOCH) for name in NAMES]

    for _ in range(2):
        before = known()
        coordinator.load()
        assert known() == before
        complete(coordinator, work)
