"""Our own clients through crashes, cuts and silence: nothing lost, nothing twice, in order, and in time."""

import json
import os
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from levada.client.cluster import Cluster
from levada.client.consumer import classic_membership, fetched, kip848_membership
from levada.client.consumer.subscription import Subscriptions
from levada.client.errors import Disconnected, KafkaError, TimedOut
from levada.client.producer.accumulator import Accumulator
from levada.client.producer.outcome import BatchOutcomes
from levada.client.producer.transactions import Transactions
from levada.client.types import GroupMetadata, OffsetAndMetadata
from levada.sim.checkers import CheckFailed
from levada.sim.checkers.partition_log import LogEntry
from levada.sim.checkers.read_history import ReadHistory, check_once
from levada.sim.checkers.send_history import SendHistory
from levada.sim.checkers.transaction_history import TransactionFate
from levada.sim.frame import run_scenario
from levada.sim.scenarios.client_storm import ClientStorm

SEEDS = range(4)
BLOCK = 2
PARTITION = ("topic", 0)


@pytest.mark.parametrize("first", range(SEEDS.start, SEEDS.stop, BLOCK))
def test_clients_survive_a_storm_and_leave_the_same_trace_in_another_process(first: int) -> None:
    digests = {}
    for seed in range(first, first + BLOCK):
        outcome, _ = run_scenario(ClientStorm, seed)
        assert outcome.counts["records"] > 100
        assert outcome.counts["commits"] > 20
        assert outcome.counts["aborts"] > 5
        assert outcome.counts["reads"] > 500
        digests[str(seed)] = outcome.digest
    command = [sys.executable, "-m", "levada.sim", "--scenario", "clients", "--json"]
    command += ["--first", str(first), "--count", str(BLOCK)]
    environment = {**os.environ, "PYTHONHASHSEED": str(first + 1)}
    again = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=200)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout) == digests


def complaint(seeds: range = range(10)) -> str:
    """What the first seed that fails is failed for."""
    for seed in seeds:
        try:
            run_scenario(ClientStorm, seed)
        except CheckFailed as failure:
            return str(failure)
    return "nothing"


def test_a_producer_that_renumbers_after_a_lost_answer_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    can_retry = BatchOutcomes._can_retry

    def renumber(self: BatchOutcomes, queue: Any, batch: Any, error: KafkaError) -> bool:
        if isinstance(error, Disconnected | TimedOut) and not self._is_transactional:
            queue.needs_new_epoch = True
        return can_retry(self, queue, batch, error)

    monkeypatch.setattr(BatchOutcomes, "_can_retry", renumber)
    told = complaint(range(1, 11))
    assert "is in the log twice" in told or "was acknowledged at" in told


def test_a_producer_that_never_gives_up_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Accumulator, "expired", lambda *_: ([], None))
    told = complaint(range(3, 13))
    assert "no outcome" in told or "has its outcome at" in told


def test_a_consumer_that_commits_what_it_has_not_handed_out_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    consumed = Subscriptions.consumed

    def hasty(self: Subscriptions) -> dict[Any, OffsetAndMetadata]:
        ends = {at: state.high_watermark or 0 for at, state in self.states()}
        return {at: OffsetAndMetadata(max(ends[at], each.offset)) for at, each in consumed(self).items()}

    monkeypatch.setattr(Subscriptions, "consumed", hasty)
    assert "and no member has read" in complaint()


@pytest.mark.parametrize("module", [classic_membership, kip848_membership])
def test_a_member_that_keeps_what_it_must_give_up_is_caught(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType
) -> None:
    async def keep(*_: Any, **__: Any) -> None:
        pass

    monkeypatch.setattr(module, "revoke", keep)
    told = complaint()
    caught = ("was accepted although", "while [", "has owners", "goes back from", "which has it")
    assert any(words in told for words in caught), told


def test_a_consumer_that_hands_out_what_was_aborted_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetched._Aborted, "covers", lambda *_: False)
    assert "is visible, and it is" in complaint()


def test_a_task_that_outlives_its_client_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang_up(self: Cluster) -> None:
        for node in self._nodes.values():
            node.close()

    monkeypatch.setattr(Cluster, "close", hang_up)
    assert "its tasks go on" in complaint()


def test_offsets_that_show_no_member_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    commit_offsets = Transactions._commit_offsets

    async def anonymous(self: Transactions, offsets: Any, group: GroupMetadata) -> None:
        await commit_offsets(self, offsets, GroupMetadata(group.group_id))

    monkeypatch.setattr(Transactions, "_commit_offsets", anonymous)
    told = complaint(range(5, 15))
    assert any(part in told for part in ("not once each", "goes back", "processors has read"))


# The checkers themselves


def log_of(*values: bytes, hidden: tuple[bytes, ...] = ()) -> dict[tuple[str, int], list[LogEntry]]:
    return {PARTITION: [LogEntry(offset, value, value not in hidden) for offset, value in enumerate(values)]}


def sent(history: SendHistory, *values: bytes, transaction: Any = None) -> None:
    for value in values:
        one = history.send(value, "writer", len(history.sent), transaction)
        history.accept(one, 10.0)


def test_what_was_acknowledged_is_where_it_was_said_to_be() -> None:
    history = SendHistory()
    sent(history, b"one", b"two", b"three")
    history.check_logs(log_of(b"one", b"three"))
    history.resolve(history.sent[b"two"], (PARTITION, 1), 5.0, is_acknowledged=True)
    history.check_logs(log_of(b"one", b"two"))
    with pytest.raises(CheckFailed, match="and is nowhere"):
        history.check_logs(log_of(b"one"))
    with pytest.raises(CheckFailed, match="acknowledged at"):
        history.check_logs(log_of(b"two"))
    with pytest.raises(CheckFailed, match="twice"):
        history.check_logs(log_of(b"one", b"two", b"one"))
    with pytest.raises(CheckFailed, match="behind number"):
        history.check_logs(log_of(b"three", b"two"))
    with pytest.raises(CheckFailed, match="which no producer sent"):
        history.check_logs(log_of(b"four"))


def test_a_handle_has_one_outcome_and_in_time() -> None:
    history = SendHistory()
    sent(history, b"one", b"two")
    history.check_deadlines(10.0)
    with pytest.raises(CheckFailed, match="has no outcome"):
        history.check_deadlines(10.1)
    history.resolve(history.sent[b"one"], None, 9.0, is_acknowledged=False)
    with pytest.raises(CheckFailed, match="two outcomes"):
        history.resolve(history.sent[b"one"], None, 9.0, is_acknowledged=True)
    with pytest.raises(CheckFailed, match="due at"):
        history.resolve(history.sent[b"two"], None, 11.0, is_acknowledged=True)
    history.check_none_pending("writer")


def test_a_transaction_is_visible_as_a_whole_and_only_if_its_producer_asked() -> None:
    history = SendHistory()
    transaction = history.begin("transaction")
    sent(history, b"one", b"two", transaction=transaction)
    history.check_logs(log_of(b"one", b"two", hidden=(b"one", b"two")))
    with pytest.raises(CheckFailed, match="is visible, and it is open"):
        history.check_logs(log_of(b"one", b"two"))
    transaction.ask()
    with pytest.raises(CheckFailed, match="1 of 2 records"):
        history.check_logs(log_of(b"one", b"two", hidden=(b"two",)))
    with pytest.raises(CheckFailed, match="not acknowledged"):
        transaction.commit()
    assert transaction.fate is TransactionFate.COMMITTED
    with pytest.raises(CheckFailed, match="nothing of it is visible"):
        history.check_logs(log_of(b"one", b"two", hidden=(b"one", b"two")))
    with pytest.raises(CheckFailed, match="a reader has seen it"):
        transaction.abort()


def test_members_read_on_where_others_were_and_skip_nothing() -> None:
    log = log_of(b"one", b"two", b"three", b"four", hidden=(b"two",))
    history = ReadHistory("group")
    history.take("first", PARTITION, 1.0)
    history.read("first", PARTITION, 0)
    with pytest.raises(CheckFailed, match="no member has read"):
        history.check_reads(log)
    history.read("first", PARTITION, 2)
    history.give_up("first", PARTITION)
    with pytest.raises(CheckFailed, match="does not have it"):
        history.read("first", PARTITION, 3)
    history.take("second", PARTITION, 2.0)
    history.read("second", PARTITION, 2)
    history.read("second", PARTITION, 3)
    history.check_reads(log)
    history.read("second", PARTITION, 3)
    with pytest.raises(CheckFailed, match="to second after 3"):
        history.check_reads(log)


def test_a_record_that_was_hidden_is_handed_to_no_reader() -> None:
    history = ReadHistory("group")
    history.take("first", PARTITION, 1.0)
    history.read("first", PARTITION, 1)
    with pytest.raises(CheckFailed, match="and is not there"):
        history.check_reads(log_of(b"one", b"two", hidden=(b"two",)))


def test_two_members_may_have_a_partition_only_while_one_of_them_does_not_know_that_it_is_out() -> None:
    history = ReadHistory("group")
    history.take("first", PARTITION, 1.0)
    history.take("second", PARTITION, 2.0)
    history.commit("second", 3.0)
    with pytest.raises(CheckFailed, match="from first to second"):
        history.commit("first", 3.0)
    history.lose("first", [PARTITION])
    history.is_strict = True
    with pytest.raises(CheckFailed, match="while"):
        history.take("third", PARTITION, 4.0)


def test_each_record_is_processed_once_and_in_order() -> None:
    source = {("in", 0): [LogEntry(0, b"a", True), LogEntry(1, b"b", True)]}
    made = [LogEntry(at, b"made|0|%d|x" % at, True) for at in range(2)]
    check_once({**source, ("out", 0): made}, "in", "out", b"made|")
    for wrong in (made[:1], [*made, made[1]], made[::-1]):
        with pytest.raises(CheckFailed, match="not once each"):
            check_once({**source, ("out", 0): wrong}, "in", "out", b"made|")
