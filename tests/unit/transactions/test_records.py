"""A transaction as the record that keeps it, and back; and states as a table."""

import pytest

from levada.coordination.decision import Record
from levada.protocol.errors import MalformedMessage
from levada.transactions import Transaction, TransactionMachine, TransactionSettings, TransactionState
from levada.transactions.records import TransactionLogKey, decode, encode
from levada.transactions.states import BY_NUMBER, BY_TITLE, DECIDED, IDLE, NEXT
from levada.transactions.transaction import record_of, removal_of, transaction_from
from tests.unit.transactions.journals import value_of

FULL = Transaction(
    transactional_id="t",
    producer_id=5,
    producer_epoch=6,
    timeout_ms=7,
    state=TransactionState.PREPARE_COMMIT,
    updated_ms=8,
    started_ms=9,
    partitions=frozenset({("a", 0), ("a", 2), ("b", 1)}),
    previous_producer_id=10,
    next_producer_id=11,
    client_version=2,
    group=b"0123456789abcdef",
)


def read_back(transaction: Transaction, transaction_version: int = 2) -> Transaction:
    record = decode(*encode(record_of(transaction), transaction_version))
    back = transaction_from(transaction.transactional_id, value_of(record))
    assert back is not None
    return back


def test_a_transaction_comes_back_from_its_record() -> None:
    assert read_back(FULL) == FULL
    assert read_back(FULL, transaction_version=1) == FULL


def test_the_last_epoch_is_known_to_memory_alone() -> None:
    assert read_back(FULL._replace(last_producer_epoch=4)) == FULL


def test_version_0_keeps_what_it_has_a_place_for() -> None:
    plain = FULL._replace(group=b"")
    assert read_back(plain, transaction_version=0) == plain._replace(
        previous_producer_id=-1, next_producer_id=-1, client_version=0
    )


def test_a_removal_has_no_value() -> None:
    key, value = encode(removal_of("t"))
    assert (key, value) == (b"\0\0\0\1t", None)
    assert decode(key, None) == removal_of("t")


def test_what_is_of_a_later_release_is_skipped() -> None:
    key, value = encode(record_of(FULL))
    assert value is not None
    assert decode(b"\0\1" + key[2:], value) is None
    assert decode(key, b"\0\2" + value[2:]) is None


def test_bytes_that_are_no_record_are_refused() -> None:
    key, value = encode(record_of(FULL))
    assert value is not None
    for cut in (b"", b"\0", value[:-3]):
        with pytest.raises(MalformedMessage):
            decode(key, cut)
    with pytest.raises(MalformedMessage):
        decode(key[:-1], value)


def test_a_state_of_a_later_release_leaves_what_was_there() -> None:
    machine = TransactionMachine(TransactionSettings(), lambda: 1)
    machine.apply(record_of(FULL))
    record = record_of(FULL)
    value_of(record).transaction_status = 8
    machine.apply(record)
    machine.apply(Record("another key", None))
    assert machine.transactions == {"t": FULL}
    machine.apply(removal_of("t"))
    machine.apply(removal_of("t"))
    assert not machine.transactions


def test_null_partitions_are_none() -> None:
    record = record_of(FULL)
    value_of(record).transaction_partitions = None
    assert transaction_from("t", value_of(record)) == FULL._replace(partitions=frozenset())


def test_the_key_is_the_transactional_id() -> None:
    assert record_of(FULL).key == TransactionLogKey(transactional_id="t")


def test_states_have_apaches_numbers_and_names() -> None:
    assert [state.number for state in TransactionState] == list(range(8)) == sorted(BY_NUMBER)
    assert BY_TITLE["PrepareEpochFence"] is TransactionState.PREPARE_EPOCH_FENCE


def test_a_decided_transaction_can_only_be_completed() -> None:
    assert NEXT[TransactionState.PREPARE_COMMIT] == {TransactionState.COMPLETE_COMMIT}
    assert NEXT[TransactionState.PREPARE_ABORT] == {TransactionState.COMPLETE_ABORT}
    assert set(NEXT) == set(TransactionState)
    assert not DECIDED & IDLE
    assert all(TransactionState.PREPARE_COMMIT not in NEXT[state] for state in IDLE)


def test_no_transition_beside_the_table() -> None:
    with pytest.raises(AssertionError):
        FULL._replace(state=TransactionState.EMPTY).completed(1)
