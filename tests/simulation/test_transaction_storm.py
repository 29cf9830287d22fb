"""Transactions through crashes, zombies and lost messages: whole or not at all, once, in order, and soon over."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from levada.broker import markers, verification
from levada.broker.handlers import produce
from levada.broker.journal import PartitionJournal
from levada.broker.markers import MarkerSender
from levada.broker.transaction_coordinator import TransactionCoordinator
from levada.coordination.decision import EndOfTransaction, Record
from levada.coordination.shard import Shard
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.produce import IMPLICIT_ADD_SINCE
from levada.sim.actors.transactional_producer import TOPIC
from levada.sim.checkers import CheckFailed
from levada.sim.checkers.transaction_history import (
    CommittedView,
    TransactionFate,
    TransactionHistory,
    check_offset,
    check_whole,
)
from levada.sim.frame import run_scenario
from levada.sim.frame.faults import BROKER
from levada.sim.scenarios.transaction_storm import TransactionStorm
from levada.sim.world import pages
from levada.storage.log import Log
from levada.storage.marker_sets import MarkerSet
from levada.transactions import MARKERS, MarkerWork, TransactionMachine, TransactionState
from levada.transactions.records import TransactionLogValue

SEEDS = range(4)
BLOCK = 2


@pytest.mark.parametrize("first", range(SEEDS.start, SEEDS.stop, BLOCK))
def test_transactions_survive_crashes_and_leave_the_same_trace_in_another_process(first: int) -> None:
    digests = {}
    for seed in range(first, first + BLOCK):
        outcome, _ = run_scenario(TransactionStorm, seed)
        assert outcome.counts["crashes"] >= 1
        assert outcome.counts["commits"] > 20
        assert outcome.counts["aborts"] > 10
        digests[str(seed)] = outcome.digest
    command = [sys.executable, "-m", "levada.sim", "--scenario", "transactions", "--json"]
    command += ["--first", str(first), "--count", str(BLOCK)]
    environment = {**os.environ, "PYTHONHASHSEED": str(first + 1)}
    again = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=200)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout) == digests


def complaint(seeds: range = range(10)) -> str:
    """What the first seed that fails is failed for."""
    for seed in seeds:
        try:
            run_scenario(TransactionStorm, seed)
        except CheckFailed as failure:
            return str(failure)
    return "nothing"


def test_a_partition_that_gets_no_markers_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    write = MarkerSender._write

    async def forgetful(self: MarkerSender, topic: str, index: int, *rest: Any) -> bool:
        return (topic, index) == (TOPIC, 1) or await write(self, topic, index, *rest)

    monkeypatch.setattr(MarkerSender, "_write", forgetful)
    assert "partition 1 is stable up to" in complaint()


def test_an_abort_that_readers_are_not_told_of_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Log, "aborted_in_read", lambda *_: [])
    assert "is visible: " in complaint()


def test_decisions_that_a_new_coordinator_does_not_read_back_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    load = Shard.load

    def partly(self: Shard[Any], record: Record) -> None:
        value = record.value
        if (
            not isinstance(value, TransactionLogValue)
            or value.transaction_status != TransactionState.PREPARE_COMMIT.number
        ):
            load(self, record)

    monkeypatch.setattr(Shard, "load", partly)
    text = complaint()
    # Committed here and there, or nowhere, or of no owner any more: by when and where the crash was.
    assert any(part in text for part in ("and wrote to", "nothing of it is visible", "as if its id were another's"))


def test_decisions_that_a_new_coordinator_does_not_finish_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    on_loaded = TransactionMachine.on_loaded

    def idle(self: TransactionMachine, now_ms: int) -> None:
        on_loaded(self, now_ms)
        self.outbox.replies.clear()

    monkeypatch.setattr(TransactionMachine, "on_loaded", idle)
    text = complaint(range(1, 10))
    assert "Prepare" in text or "do not come to an end" in text


def test_a_group_commit_in_two_batches_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    append = PartitionJournal.append

    def split(self: PartitionJournal, records: Sequence[Record]) -> int:
        if len(records) > 1:
            append(self, records[:1])
        return append(self, records[1:] or records)

    monkeypatch.setattr(PartitionJournal, "append", split)
    text = complaint(range(7, 40))
    assert "committed together" in text or "are visible in" in text


def test_markers_of_a_group_in_several_writes_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    deliver = TransactionCoordinator.deliver

    def split(self: TransactionCoordinator, token: Any, reply: Any, shard: Any) -> None:
        if token is MARKERS and isinstance(reply, MarkerWork):
            for marker in reply.markers:
                deliver(self, token, MarkerWork((marker,)), shard)
        else:
            deliver(self, token, reply, shard)

    monkeypatch.setattr(TransactionCoordinator, "deliver", split)
    assert "are visible in" in complaint(range(6, 30))


def tear_often_and_finish_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Power is cut while a group is committed and leaves a beginning of what was not synced, and a new coordinator

    takes a second to finish anything.
    """
    on_loaded, send = TransactionMachine.on_loaded, MarkerSender.send
    left_over: list[MarkerWork] = []

    def loaded(self: TransactionMachine, now_ms: int) -> None:
        on_loaded(self, now_ms)
        left_over.extend(reply for _, reply in self.outbox.replies if isinstance(reply, MarkerWork))

    async def late(self: MarkerSender, work: MarkerWork, *rest: Any) -> None:
        if any(one is work for one in left_over):
            await asyncio.sleep(1)
        await send(self, work, *rest)

    def init(self: Any, simulation: Any) -> None:
        make(self, simulation)
        self.flush_messages = 1

    def cut_power(self: Any, transactions: int) -> None:
        if self.is_blowing and transactions > 1 and self.chance.random() < 0.5:
            operations = self.chance.randrange(4, 20)
            self.simulation.crash_at(BROKER, disk_operations=operations, power_loss=True)

    make = TransactionStorm.__init__
    monkeypatch.setattr(TransactionStorm, "__init__", init)
    monkeypatch.setattr(TransactionStorm, "_before_decision", cut_power)
    monkeypatch.setattr(TransactionMachine, "on_loaded", loaded)
    monkeypatch.setattr(MarkerSender, "send", late)
    monkeypatch.setattr(pages, "tear", lambda unsynced, chance: unsynced[: chance.randint(0, len(unsynced))])


TORN_SEEDS = (16, 36)
"""In which a power cut leaves some markers of a group, and a reader comes before the rest."""


def test_readers_see_nothing_of_a_group_whose_markers_are_torn(monkeypatch: pytest.MonkeyPatch) -> None:
    tear_often_and_finish_late(monkeypatch)
    for seed in TORN_SEEDS:
        run_scenario(TransactionStorm, seed)


def test_markers_that_count_though_their_write_is_torn_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    tear_often_and_finish_late(monkeypatch)
    monkeypatch.setattr(MarkerSet, "take", lambda _self, _tie, _offset, marker: [marker])
    # Few seeds meet it; the first of these does.
    assert "are visible in" in complaint(range(TORN_SEEDS[0], 60))


def test_late_records_that_no_broker_verifies_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = verification.ask_coordinator

    def trusting(unverified: Any, transactional_id: str, version: int, broker: Any) -> "asyncio.Future[Any]":
        if version >= IMPLICIT_ADD_SINCE:
            return ask(unverified, transactional_id, version, broker)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.set_result(ErrorCode.NONE)
        return future

    monkeypatch.setattr(produce, "ask_coordinator", trusting)
    # Few seeds meet it; the first of these does.
    text = complaint(range(3, 40))
    assert "is visible: it was aborted" in text or "was carried out although" in text or "is stable up to" in text


def test_offsets_of_an_aborted_transaction_that_count_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markers, "EndOfTransaction", lambda producer_id, _: EndOfTransaction(producer_id, True))
    assert "an offset of" in complaint()


def test_transactions_that_never_time_out_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TransactionMachine, "_look_for_aborts", lambda *_: None)
    assert "is Ongoing" in complaint()


# The checkers themselves


def shown(view: CommittedView, attempt: Any, count: int = 1) -> None:
    offsets, values = attempt.offsets[view.partition], attempt.values[view.partition]
    for offset, value in list(zip(offsets, values))[:count]:
        view.show(offset, value)


def written(history: TransactionHistory, *offsets: int, partition: int = 0) -> Any:
    attempt = history.begin("owner", "id")
    for offset in offsets:
        history.write(attempt, partition, 0)
        attempt.offsets.setdefault(partition, []).append(offset)
    return attempt


def test_what_no_producer_asked_to_commit_must_not_be_visible() -> None:
    history = TransactionHistory()
    with pytest.raises(CheckFailed, match="its commit was not asked for"):
        shown(CommittedView(history, 0), written(history, 0))
    asked = written(history, 1)
    asked.ask()
    shown(CommittedView(history, 0), asked)
    with pytest.raises(CheckFailed, match="a reader has seen it"):
        asked.abort()


def test_a_transaction_may_be_in_part_behind_one_that_is_open_but_not_before_it() -> None:
    history = TransactionHistory()
    view = CommittedView(history, 0)
    attempt = written(history, 0, 3)
    attempt.ask()
    shown(view, attempt)
    view.last_stable_offset = 2
    view.settle()
    view.last_stable_offset = 5
    with pytest.raises(CheckFailed, match="1 of 2 records"):
        view.settle()


def test_a_member_of_a_group_that_is_still_open_is_seen() -> None:
    history = TransactionHistory()
    view = CommittedView(history, 0)
    mates = [written(history, 0), written(history, 2)]
    for mate in mates:
        mate.mates = mates
        mate.ask()
    shown(view, mates[0])
    # Another one may be open in between, and it is not known of what.
    view.last_stable_offset = 1
    view.settle()
    view.last_stable_offset = 2
    with pytest.raises(CheckFailed, match="0 of 0 records"):
        view.settle()


def test_what_was_read_once_is_read_again() -> None:
    history = TransactionHistory()
    view = CommittedView(history, 0)
    first, second = written(history, 0), written(history, 2)
    for attempt in (first, second):
        attempt.ask()
        shown(view, attempt)
    with pytest.raises(CheckFailed, match="after 1 others"):
        shown(view, second)
    view.begin_again()
    with pytest.raises(CheckFailed, match="and now"):
        shown(view, second)


def test_a_transaction_is_in_all_its_partitions_or_in_none() -> None:
    history = TransactionHistory()
    views = [CommittedView(history, 0), CommittedView(history, 1)]
    attempt = written(history, 0)
    history.write(attempt, 1, 0)
    attempt.offsets[1] = [7]
    attempt.ask()
    check_whole(history, views, {})
    assert attempt.fate is TransactionFate.ABORTED
    attempt.fate = TransactionFate.ASKED
    shown(views[0], attempt)
    with pytest.raises(CheckFailed, match="is visible in partitions"):
        check_whole(history, views, {})
    shown(views[1], attempt)
    check_whole(history, views, {"id": ""})


def test_a_stable_offset_is_not_older_than_the_last_commit() -> None:
    history = TransactionHistory()
    first, second = written(history, 0), written(history, 1)
    for attempt in (first, second):
        attempt.has_offsets = True
        attempt.ask()
    first.commit(1.0)
    check_offset(history, "id", first.name, 2.0, is_stable=True)
    second.commit(3.0)
    check_offset(history, "id", first.name, 2.5, is_stable=True)
    check_offset(history, "id", first.name, 4.0, is_stable=False)
    with pytest.raises(CheckFailed, match="was committed, and"):
        check_offset(history, "id", first.name, 4.0, is_stable=True)
    pending = written(history, 2)
    pending.has_offsets = True
    with pytest.raises(CheckFailed, match="its commit was not asked for"):
        check_offset(history, "id", pending.name, 5.0, is_stable=False)


def test_who_is_fenced_must_have_a_successor_or_be_late() -> None:
    history = TransactionHistory()
    mine = history.claim("one", "id", 1.0)
    mine.answered_s, mine.is_granted = 1.1, True
    with pytest.raises(CheckFailed, match="as if its id were another's"):
        history.check_fenced(mine, 2.0, 4.0, 3.0, "a record")
    history.check_fenced(mine, 2.0, 4.0, 6.0, "a record")
    history.check_heard(mine, 3.0, "a record")
    other = history.claim("two", "id", 4.0)
    history.check_fenced(mine, None, 4.0, 4.5, "a record")
    other.answered_s, other.is_granted = 5.0, True
    history.check_heard(mine, 4.9, "a record")
    with pytest.raises(CheckFailed, match="although two has its id"):
        history.check_heard(mine, 5.1, "a record")
