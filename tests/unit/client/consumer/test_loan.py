"""Records that are lent to another thread, and what counts as consumed when they come back."""

import threading

import pytest

from levada.client.consumer.fetched import Backlog, Reading
from levada.client.consumer.loan import LOAN_MS, Loan
from levada.client.consumer.subscription import PartitionState, Position
from levada.client.types import TopicPartition
from levada.records import ConsumerRecord, build_batch

LIMIT = 3


class Clock:
    now_ms = 1_000.0

    def __call__(self) -> float:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


def backlog(*counts: int) -> Backlog:
    """One batch after another, all in one answer."""
    position = Position(0)
    made = Backlog(TopicPartition("t", 0), PartitionState(position), position)
    start, data = 0, b""
    for count in counts:
        rows = [(1_000, None, b"%d" % number, ()) for number in range(start, start + count)]
        data += build_batch(rows, base_offset=start, partition_leader_epoch=7)
        start += count
    made.add(data, None)
    return made


def lent(mine: Backlog, clock: Clock) -> Loan:
    loan = mine.lend(LIMIT, clock)
    assert loan is not None
    return loan


def offsets(records: list[ConsumerRecord]) -> list[int]:
    return [record.offset for record in records]


def test_what_is_taken_counts_once_the_loan_has_ended(clock: Clock) -> None:
    mine = backlog(10)
    assert offsets(mine.take(2, Reading())) == [0, 1]
    loan = lent(mine, clock)
    assert offsets(loan.take(None)) == [2, 3, 4]
    assert offsets(loan.take(2)) == [5, 6]
    assert mine.position.offset == 2
    mine.take_back(loan.end())
    assert mine.state.position == mine.position == Position(7, 7)
    assert not mine.is_stale
    assert offsets(mine.take(10, Reading())) == [7, 8, 9]


def test_nothing_is_lent_that_is_not_decoded(clock: Clock) -> None:
    mine = backlog(2)
    assert mine.lend(LIMIT, clock) is None
    mine.take(2, Reading())
    assert mine.lend(LIMIT, clock) is None


def test_a_loan_that_was_taken_whole_ends_its_batches(clock: Clock) -> None:
    mine = backlog(2, 3, 1)
    mine.take(1, Reading())
    loan = lent(mine, clock)
    assert offsets(loan.take(100)) == [1, 2, 3, 4, 5]
    assert loan.take(100) == []
    mine.take_back(loan.end())
    assert mine.position == Position(6, 7)
    assert mine.is_empty


def test_a_loan_ends_with_its_time_or_when_it_is_called_back(clock: Clock) -> None:
    mine = backlog(10)
    mine.take(1, Reading())
    loan = lent(mine, clock)
    clock.now_ms += LOAN_MS - 1
    assert offsets(loan.take(1)) == [1]
    clock.now_ms += 1
    assert loan.take(1) == []
    mine.take_back(loan.end())
    loan = lent(mine, clock)
    assert loan.end() == 0
    assert loan.take(1) == []
    mine.take_back(0)
    assert mine.position.offset == 2


def test_a_number_of_records_that_makes_no_sense_is_left_to_the_loop(clock: Clock) -> None:
    mine = backlog(10)
    mine.take(1, Reading())
    loan = lent(mine, clock)
    assert loan.take(0) == []
    assert loan.take(-1) == []
    assert loan.end() == 0


def test_what_was_lent_before_a_seek_moves_nothing(clock: Clock) -> None:
    mine = backlog(10)
    mine.take(1, Reading())
    loan = lent(mine, clock)
    loan.take(4)
    mine.state.position = Position(0)
    mine.take_back(loan.end())
    assert mine.state.position == Position(0)


def test_a_loan_that_ends_while_another_thread_takes_loses_no_count(clock: Clock) -> None:
    for _ in range(20):
        mine = backlog(2_000)
        mine.take(1, Reading())
        loan = lent(mine, clock)
        taken: list[int] = []
        begun = threading.Event()

        def take(loan: Loan = loan, taken: list[int] = taken, begun: threading.Event = begun) -> None:
            while records := loan.take(1):
                taken.extend(offsets(records))
                begun.set()

        thread = threading.Thread(target=take)
        thread.start()
        begun.wait(10)
        mine.take_back(loan.end())
        thread.join(10)
        assert taken == list(range(1, mine.position.offset))
