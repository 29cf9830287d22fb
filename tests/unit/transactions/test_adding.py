"""Partitions become part of a transaction, or are looked for in it."""

import pytest

from levada.model.error_codes import ErrorCode
from levada.model.errors import CoordinatorNotAvailable
from levada.transactions import TransactionState
from tests.unit.transactions.harness import BUMPING, FROM_BROKERS, ID, A, B, Coordinator


def test_the_first_partitions_begin_the_transaction() -> None:
    coordinator = Coordinator()
    coordinator.init()
    coordinator.advance(7)
    assert coordinator.add(A, B) is ErrorCode.NONE
    transaction = coordinator.of()
    assert (transaction.state, transaction.partitions) == (TransactionState.ONGOING, frozenset({A, B}))
    assert (transaction.started_ms, transaction.updated_ms) == (coordinator.now_ms, coordinator.now_ms)


def test_more_partitions_do_not_move_its_beginning() -> None:
    coordinator = Coordinator()
    coordinator.open(ID)
    begun_ms = coordinator.now_ms
    coordinator.advance(7)
    coordinator.add(B)
    assert coordinator.of().partitions == {A, B}
    assert (coordinator.of().started_ms, coordinator.of().updated_ms) == (begun_ms, begun_ms + 7)


def test_partitions_that_are_there_are_not_written_again() -> None:
    coordinator = Coordinator()
    coordinator.open(ID, partitions=(A, B))
    written = len(coordinator.journal.batches)
    assert coordinator.add(B) is ErrorCode.NONE
    assert coordinator.add() is ErrorCode.NONE
    assert len(coordinator.journal.batches) == written


@pytest.mark.parametrize("commit", [True, False])
def test_another_transaction_begins_when_one_is_complete(commit: bool) -> None:
    coordinator = Coordinator()
    coordinator.open(ID)
    coordinator.end(commit=commit)
    assert coordinator.add(B) is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()
    coordinator.advance(5)
    assert coordinator.add(B) is ErrorCode.NONE
    assert coordinator.of().partitions == {B}
    assert coordinator.of().started_ms == coordinator.now_ms


@pytest.mark.parametrize(("version", "client_version"), [(0, 0), (3, 0), (4, 2), (5, 2)])
def test_brokers_add_for_clients_of_the_newer_version(version: int, client_version: int) -> None:
    coordinator = Coordinator()
    coordinator.init()
    coordinator.add(A, version=version)
    assert coordinator.of().client_version == client_version


@pytest.mark.parametrize("version", [1, 2, FROM_BROKERS])
def test_who_may_not_add_is_told_why(version: int) -> None:
    coordinator = Coordinator()
    coordinator.init()
    producer_id, epoch = coordinator.identity()
    fenced = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert coordinator.add(A, name="", at=(1, 1), version=version) is ErrorCode.INVALID_REQUEST
    unknown = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.add(A, name="other", at=(producer_id, epoch), version=version) is unknown
    assert coordinator.add(A, at=(producer_id + 1, epoch), version=version) is unknown
    assert coordinator.add(A, at=(producer_id, epoch - 1), version=version) is fenced
    assert coordinator.add(A, at=(producer_id, epoch + 1), version=version) is fenced
    assert coordinator.state() is TransactionState.EMPTY
    assert len(coordinator.journal.batches) == 1


def test_a_decided_transaction_comes_before_the_question_who_asks() -> None:
    coordinator = Coordinator()
    coordinator.open(ID)
    coordinator.end()
    assert coordinator.add(A, at=(7, 7)) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_partitions_that_cannot_be_written_are_not_added() -> None:
    coordinator = Coordinator()
    coordinator.init()
    coordinator.journal.refusal = CoordinatorNotAvailable("no replicas")
    at = coordinator.identity()
    refused = coordinator.run(lambda machine, token: machine.add_partitions(token, ID, *at, [A], 3, coordinator.now_ms))
    assert refused.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert coordinator.state() is TransactionState.EMPTY
    coordinator.journal.refusal = None
    assert coordinator.add(A) is ErrorCode.NONE


class TestVerifying:
    """Whether a partition's leader may append: AddPartitionsToTxn with verify_only (KIP-890)."""

    def test_only_added_partitions_are_in_the_transaction(self) -> None:
        coordinator = Coordinator()
        coordinator.open(ID)
        assert coordinator.verify(A, B) == [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]

    def test_a_complete_transaction_has_no_partitions(self) -> None:
        coordinator = Coordinator()
        coordinator.open(ID)
        coordinator.end()
        assert coordinator.verify(A) == [ErrorCode.CONCURRENT_TRANSACTIONS]
        coordinator.write_markers()
        assert coordinator.verify(A) == [ErrorCode.TRANSACTION_ABORTABLE]

    def test_strangers_are_told_so(self) -> None:
        coordinator = Coordinator()
        coordinator.open(ID)
        producer_id, epoch = coordinator.identity()
        assert coordinator.verify(A, B, name="", at=(1, 1)) == [ErrorCode.INVALID_REQUEST] * 2
        assert coordinator.verify(A, name="other", at=(1, 1)) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
        assert coordinator.verify(A, at=(producer_id + 1, epoch)) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
        assert coordinator.verify(A, at=(producer_id, epoch + 1)) == [ErrorCode.PRODUCER_FENCED]

    def test_an_old_epoch_is_fenced_even_while_markers_are_written(self) -> None:
        coordinator = Coordinator()
        coordinator.open(ID, version=FROM_BROKERS)
        old = coordinator.identity()
        coordinator.end(version=BUMPING)
        assert coordinator.verify(A, at=old) == [ErrorCode.PRODUCER_FENCED]

    def test_it_changes_nothing(self) -> None:
        coordinator = Coordinator()
        coordinator.open(ID)
        before = coordinator.of()
        coordinator.verify(A, B)
        assert coordinator.of() == before
