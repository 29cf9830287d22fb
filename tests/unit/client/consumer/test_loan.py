"""Records that are lent out, and what counts as consumed when they come back."""

import threading

from levada.client.consumer.fetched import Backlog, Reading
from levada.client.consumer.loan import Loan
from levada.client.consumer.subscription import PartitionState, Position
from levada.client.types import TopicPartition
from levada.records import ConsumerRecord, build_batch

LIMIT = 10_000


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


def lent(mine: Backlog, limit: int = LIMIT) -> Loan:
    loan = mine.lend(limit, Reading())
    assert loan is not None
    return loan


def offsets(records: list[ConsumerRecord]) -> list[int]:
    return [record.offset for record in records]


def test_what_is_taken_counts_once_the_loan_has_ended() -> None:
    mine = backlog(10)
    assert offsets(mine.take(2, Reading())) == [0, 1]
    loan = lent(mine)
    assert offsets(loan.take(3)) == [2, 3, 4]
    assert offsets(loan.take(2)) == [5, 6]
    assert mine.position.offset == 2
    mine.take_back(loan.end())
    assert mine.state.position == mine.position == Position(7, 7)
    assert not mine.is_stale
    assert offsets(mine.take(10, Reading())) == [7, 8, 9]


def test_what_is_lent_is_decoded_for_it_and_counts_only_as_far_as_it_is_taken() -> None:
    mine = backlog(2, 3)
    loan = lent(mine)
    assert [next(iter(loan)).offset for _ in range(3)] == [0, 1, 2]
    assert mine.position.offset == 0
    mine.take_back(loan.end())
    assert mine.position == Position(3, 7)
    assert list(loan) == []
    assert offsets(mine.take(10, Reading())) == [3, 4]
    assert mine.lend(LIMIT, Reading()) is None


def test_not_more_is_lent_than_was_asked_for() -> None:
    mine = backlog(10)
    loan = lent(mine, 4)
    assert offsets(list(loan)) == [0, 1, 2, 3]
    mine.take_back(loan.end())
    assert offsets(list(lent(mine, 4))) == [4, 5, 6, 7]


def test_a_loan_that_was_taken_whole_ends_its_batches() -> None:
    mine = backlog(2, 3, 1)
    mine.take(1, Reading())
    loan = lent(mine)
    assert offsets(loan.take(100)) == [1, 2, 3, 4, 5]
    assert loan.take(100) == []
    mine.take_back(loan.end())
    assert mine.position == Position(6, 7)
    assert mine.is_empty


def test_a_loan_that_has_ended_gives_nothing_more() -> None:
    mine = backlog(10)
    mine.take(1, Reading())
    loan = lent(mine)
    assert offsets(loan.take(1)) == [1]
    mine.take_back(loan.end())
    assert loan.take(1) == []
    loan = lent(mine)
    assert loan.end() == 0
    assert list(loan) == []
    mine.take_back(0)
    assert mine.position.offset == 2


def test_a_number_of_records_that_makes_no_sense_is_left_to_the_loop() -> None:
    mine = backlog(10)
    mine.take(1, Reading())
    loan = lent(mine)
    assert loan.take(0) == []
    assert loan.take(-1) == []
    assert loan.end() == 0


def test_what_was_lent_before_a_seek_moves_nothing() -> None:
    mine = backlog(10)
    mine.take(1, Reading())
    loan = lent(mine)
    loan.take(4)
    mine.state.position = Position(0)
    mine.take_back(loan.end())
    assert mine.state.position == Position(0)


def test_a_loan_that_ends_while_another_thread_takes_loses_no_count() -> None:
    for _ in range(20):
        mine = backlog(2_000)
        mine.take(1, Reading())
        loan = lent(mine)
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
