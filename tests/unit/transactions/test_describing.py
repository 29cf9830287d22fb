"""What is told of transactions to operators."""

import pytest

from levada.model.error_codes import ErrorCode
from levada.model.regexes import InvalidRegex
from levada.protocol.messages.describe_transactions import TransactionState
from levada.transactions import Transaction, TransactionFilter
from tests.unit.transactions.harness import ID, TIMEOUT_MS, A, B, Coordinator


def described(coordinator: Coordinator, name: str) -> TransactionState:
    reply = coordinator.run(lambda machine, token: machine.describe(token, name))
    assert isinstance(reply, TransactionState)
    return reply


def listed(
    coordinator: Coordinator,
    states: tuple[str, ...] = (),
    ids: tuple[int, ...] = (),
    duration_ms: int = -1,
    pattern: str | None = None,
) -> list[str]:
    chosen = TransactionFilter.of(states, ids, duration_ms, pattern)
    return [one.transactional_id for one in chosen.listed(known(coordinator), coordinator.now_ms)]


def known(coordinator: Coordinator) -> list[Transaction]:
    return list(coordinator.machine.transactions.values())


@pytest.fixture
def coordinator() -> Coordinator:
    coordinator = Coordinator()
    coordinator.init("empty")
    coordinator.advance(100)
    coordinator.open("open")
    coordinator.advance(100)
    coordinator.open("decided")
    coordinator.end(name="decided")
    return coordinator


def test_an_open_transaction_is_described() -> None:
    coordinator = Coordinator()
    coordinator.open(ID, partitions=(B, ("a", 2), A))
    reply = described(coordinator, ID)
    assert (reply.error_code, reply.transactional_id, reply.transaction_state) == (0, ID, "Ongoing")
    assert (reply.producer_id, reply.producer_epoch) == coordinator.identity()
    assert (reply.transaction_timeout_ms, reply.transaction_start_time_ms) == (TIMEOUT_MS, coordinator.now_ms)
    assert [(topic.topic, topic.partitions) for topic in reply.topics] == [("a", [0, 2]), ("b", [1])]


def test_an_unknown_transactional_id_is_not_found() -> None:
    assert described(Coordinator(), ID).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert described(Coordinator(), "").error_code == ErrorCode.INVALID_REQUEST


def test_all_are_listed(coordinator: Coordinator) -> None:
    listed = TransactionFilter.of([], [], -1, None).listed(known(coordinator), coordinator.now_ms)
    assert [(one.transactional_id, one.producer_id, one.transaction_state) for one in listed] == [
        ("empty", 1_000, "Empty"),
        ("open", 1_001, "Ongoing"),
        ("decided", 1_002, "PrepareCommit"),
    ]


def test_filters_are_all_to_be_passed(coordinator: Coordinator) -> None:
    assert listed(coordinator, states=("Ongoing", "Empty")) == ["empty", "open"]
    assert listed(coordinator, ids=(1_000, 1_002)) == ["empty", "decided"]
    assert listed(coordinator, states=("Ongoing",), ids=(1_000,)) == []
    assert listed(coordinator, states=("Nonsense",)) == []
    assert listed(coordinator, pattern="e.*|open") == ["empty", "open"]
    assert listed(coordinator, pattern="ope") == []
    assert listed(coordinator, pattern="") == ["empty", "open", "decided"]


def test_a_duration_is_to_be_exceeded(coordinator: Coordinator) -> None:
    assert listed(coordinator, duration_ms=0) == ["empty", "open"]
    assert listed(coordinator, duration_ms=99) == ["empty", "open"]
    # What has not begun has been going on for ever, as in Apache.
    assert listed(coordinator, duration_ms=100) == ["empty"]


def test_unknown_states_are_told(coordinator: Coordinator) -> None:
    chosen = TransactionFilter.of(["Ongoing", "b", "a", "b"], [], -1, None)
    assert chosen.unknown_states == ["b", "a"]
    assert len(chosen.listed(known(coordinator), coordinator.now_ms)) == 1


def test_a_pattern_that_is_none_is_refused(coordinator: Coordinator) -> None:
    with pytest.raises(InvalidRegex):
        TransactionFilter.of([], [], -1, "(")
