"""Which call of a transactional producer is allowed when, and what an error leads to."""

import asyncio
from typing import Any, cast

import pytest

from levada.client.cluster import Cluster, Deadline
from levada.client.errors import IllegalState, KafkaError, ProducerFenced, TimedOut, error_for
from levada.client.producer.identity import MAX_EPOCH, ProducerIdentity
from levada.client.producer.transactions import ALLOWED, TransactionPhase, Transactions
from levada.model.error_codes import ErrorCode
from tests.unit.client.producer.bench import FakeClock, FakeCluster, options_of

CALLS = {
    TransactionPhase.UNINITIALIZED: {"init_transactions"},
    TransactionPhase.READY: {"begin_transaction"},
    TransactionPhase.IN_TRANSACTION: {"send", "send_offsets_to_transaction", "commit_transaction", "abort_transaction"},
    TransactionPhase.COMMITTING: {"commit_transaction"},
    TransactionPhase.ABORTING: {"abort_transaction"},
    TransactionPhase.MUST_ABORT: {"abort_transaction"},
    TransactionPhase.FENCED: set[str](),
}


class Persisting(FakeCluster):
    """Does what it is asked once, or fails."""

    failure: KafkaError | None = None

    async def persist(self, attempt: Any, deadline: Deadline, what: str, *, setting: str = "") -> Any:
        if self.failure is not None:
            raise self.failure
        return await attempt()


def transactions() -> tuple[Transactions, Persisting]:
    cluster = Persisting(FakeClock(), 1)
    options = options_of(transactional_id="me")
    return Transactions(cast(Cluster, cluster), options, ProducerIdentity(3, 0), lambda: None), cluster


@pytest.mark.parametrize("state", TransactionPhase, ids=lambda state: state.name)
@pytest.mark.parametrize("call", ALLOWED)
def test_a_call_is_allowed_where_it_makes_sense(state: TransactionPhase, call: str) -> None:
    mine, _ = transactions()
    mine.state = state
    if call in CALLS[state]:
        mine.check(call)
        return
    with pytest.raises(IllegalState, match=call.replace("(", "")):
        mine.check(call)


@pytest.mark.parametrize("state", [TransactionPhase.FENCED, TransactionPhase.MUST_ABORT])
def test_a_failed_transaction_says_why(state: TransactionPhase) -> None:
    mine, _ = transactions()
    mine.state, mine.error = state, TimedOut("a batch was lost")
    with pytest.raises(TimedOut, match="a batch was lost"):
        mine.check("send")


def test_a_lost_batch_leaves_only_the_abort() -> None:
    mine, _ = transactions()
    mine.state = TransactionPhase.IN_TRANSACTION
    error = TimedOut("lost")
    mine.lost(error)
    assert (mine.state, mine.error) == (TransactionPhase.MUST_ABORT, error)
    assert error.needs_abort, "who only sees a timeout would call commit again, for ever"
    mine.lost(error_for(ErrorCode.PRODUCER_FENCED))
    assert mine.state is TransactionPhase.FENCED
    mine.lost(error)
    assert isinstance(mine.error, ProducerFenced)


def test_a_batch_that_is_lost_outside_changes_nothing() -> None:
    mine, _ = transactions()
    for state in (TransactionPhase.READY, TransactionPhase.ABORTING):
        mine.state = state
        mine.lost(TimedOut("lost"))
        assert (mine.state, mine.error) == (state, None)


def end(mine: Transactions, *, committed: bool) -> None:
    deadline = Deadline(FakeClock(), 1_000)
    asyncio.run(mine.end(committed=committed, deadline=deadline))


def test_a_transaction_in_which_nothing_was_sent_needs_no_coordinator() -> None:
    mine, cluster = transactions()
    cluster.failure = AssertionError("no broker is to be asked")  # type: ignore[assignment]
    mine.state = TransactionPhase.IN_TRANSACTION
    end(mine, committed=True)
    assert mine.state is TransactionPhase.READY


@pytest.mark.parametrize(
    ("code", "after"),
    [
        (ErrorCode.PRODUCER_FENCED, TransactionPhase.FENCED),
        (ErrorCode.INVALID_TXN_STATE, TransactionPhase.FENCED),
        (ErrorCode.TRANSACTION_ABORTABLE, TransactionPhase.MUST_ABORT),
        (ErrorCode.REQUEST_TIMED_OUT, TransactionPhase.COMMITTING),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, TransactionPhase.COMMITTING),
    ],
)
def test_an_error_of_a_commit_decides_what_may_come_next(code: ErrorCode, after: TransactionPhase) -> None:
    mine, cluster = transactions()
    mine.state = TransactionPhase.IN_TRANSACTION
    mine._is_begun = True
    cluster.failure = error_for(code)
    with pytest.raises(KafkaError):
        end(mine, committed=True)
    assert mine.state is (
        TransactionPhase.MUST_ABORT if after is TransactionPhase.FENCED and not cluster.failure.fatal else after
    )


def test_an_epoch_is_left_behind_until_there_is_no_more() -> None:
    identity = ProducerIdentity(3, MAX_EPOCH - 1)
    identity.bump()
    assert (identity.producer_id, identity.producer_epoch) == (3, MAX_EPOCH)
    identity.bump()
    assert not identity.is_known
