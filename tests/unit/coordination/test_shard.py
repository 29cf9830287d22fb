"""Decide, append, apply, reply when committed: with a machine that counts."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from levada.coordination.decision import Record
from levada.coordination.shard import Outbox, Shard
from levada.coordination.timers import Timers
from levada.model.errors import ApiError, CoordinatorNotAvailable, NotCoordinator


class Journal:
    def __init__(self) -> None:
        self.batches: list[list[Record]] = []
        self.refusal: ApiError | None = None
        self.committed: int | None = None

    def append(self, records: Sequence[Record]) -> int:
        if self.refusal is not None:
            raise self.refusal
        self.batches.append(list(records))
        return sum(map(len, self.batches))

    def committed_offset(self) -> int:
        return sum(map(len, self.batches)) if self.committed is None else self.committed


class Counting:
    """Adds up; a request can be parked until the sum is read."""

    def __init__(self) -> None:
        self.outbox = Outbox()
        self.total = 0
        self.guess = 0
        self.parked: list[Any] = []
        self._timers: Timers[int] = Timers()

    def add(self, token: Any, amount: int) -> None:
        self.guess = self.total + amount
        self.outbox.write([Record("add", amount)])
        self.outbox.undo.append(lambda _: setattr(self, "guess", self.total))
        self.outbox.answer(token, ("sum", self.guess))

    def read(self, token: Any) -> None:
        for waiting in self.parked:
            self.outbox.answer(waiting, ("read", self.total))
        self.parked.clear()
        self.outbox.answer(token, ("read", self.total))

    def park(self, token: Any) -> None:
        self.parked.append(token)

    def add_later(self, amount: int, due_ms: int) -> None:
        self._timers.set(amount, due_ms)

    def apply(self, record: Record) -> None:
        assert record.value is None or isinstance(record.value, int)
        self.total += record.value or 0

    def on_loaded(self, now_ms: int) -> None:
        self.add_later(1_000, now_ms + 10)

    def deadline_ms(self) -> int | None:
        return self._timers.deadline_ms()

    def expire(self, now_ms: int) -> bool:
        amount = self._timers.pop_due(now_ms)
        if amount is None:
            return False
        self.outbox.write([Record("add", amount)])
        return True

    def resign(self) -> None:
        for token in self.parked:
            self.outbox.answer(token, "resigned")


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.fixture
def shard(journal: Journal) -> Shard[Counting]:
    return Shard(Counting(), journal)


def output_of(shard: Shard[Counting]) -> list[tuple[Any, object]]:
    return list(shard.take_output())


def add(amount: int, token: Any = "t") -> Callable[[Counting], None]:
    return lambda machine: machine.add(token, amount)


def test_a_decision_is_appended_applied_and_answered(shard: Shard[Counting], journal: Journal) -> None:
    shard.run(add(5), 0)
    assert journal.batches == [[Record("add", 5)]]
    assert shard.machine.total == 5
    assert output_of(shard) == [("t", ("sum", 5))]
    assert output_of(shard) == []


def test_what_cannot_be_written_is_not_applied_and_is_put_right(shard: Shard[Counting], journal: Journal) -> None:
    journal.refusal = CoordinatorNotAvailable("no replicas")
    shard.run(add(5), 0)
    assert (shard.machine.total, shard.machine.guess) == (0, 0)
    assert output_of(shard) == [("t", journal.refusal)]


def test_a_reply_waits_for_its_own_records_and_for_those_before_it(shard: Shard[Counting], journal: Journal) -> None:
    journal.committed = 0
    shard.run(add(5, "first"), 0)
    shard.run(lambda machine: machine.read("reader"), 0)
    shard.run(add(6, "second"), 0)
    assert output_of(shard) == []
    journal.committed = 1
    shard.advance()
    assert output_of(shard) == [("first", ("sum", 5)), ("reader", ("read", 5))]
    journal.committed = 2
    shard.advance()
    assert output_of(shard) == [("second", ("sum", 11))]


def test_loading_replays_without_writing_and_then_starts_the_timers(shard: Shard[Counting], journal: Journal) -> None:
    for amount in (1, 2, 3):
        shard.load(Record("add", amount))
    assert (shard.machine.total, shard.machine.deadline_ms()) == (6, None)
    shard.finish_loading(3, now_ms=100)
    assert shard.machine.deadline_ms() == 110
    shard.expire(109)
    assert journal.batches == []
    shard.expire(110)
    assert shard.machine.total == 1_006


def test_everything_that_is_due_has_a_batch_of_its_own(shard: Shard[Counting], journal: Journal) -> None:
    for amount in (1, 2, 3):
        shard.machine.add_later(amount, due_ms=amount)
    shard.expire(2)
    assert [[record.value for record in batch] for batch in journal.batches] == [[1], [2]]


def test_a_coordinator_that_resigns_confirms_nothing_that_may_be_lost_and_leaves_no_request_waiting(
    shard: Shard[Counting], journal: Journal
) -> None:
    journal.committed = 0
    shard.run(lambda machine: machine.park("parked"), 0)
    shard.run(add(5, "written"), 0)
    shard.resign()
    output = dict(output_of(shard))
    assert isinstance(output["written"], NotCoordinator)
    assert output["parked"] == "resigned"
