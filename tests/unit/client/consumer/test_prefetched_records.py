"""Records decoded ahead of the polls, and what counts as consumed when their reader ends."""

import threading

from levada.client.consumer.fetched import Backlog, RecordReading
from levada.client.consumer.prefetched_records import PrefetchedRecords
from levada.client.consumer.subscription import AssignedPartition, Position
from levada.client.types import TopicPartition
from levada.records import ConsumerRecord, build_batch

LIMIT = 10_000


def backlog(*counts: int) -> Backlog:
    """One batch after another, all in one answer."""
    position = Position(0)
    made = Backlog(TopicPartition("t", 0), AssignedPartition(position), position)
    start, data = 0, b""
    for count in counts:
        rows = [(1_000, None, b"%d" % number, ()) for number in range(start, start + count)]
        data += build_batch(rows, base_offset=start, partition_leader_epoch=7)
        start += count
    made.add(data, None)
    return made


def prefetch(mine: Backlog, limit: int = LIMIT) -> PrefetchedRecords:
    prefetched = mine.prefetch(limit, RecordReading())
    assert prefetched is not None
    return prefetched


def offsets(records: list[ConsumerRecord]) -> list[int]:
    return [record.offset for record in records]


def test_what_is_taken_counts_once_their_reader_has_ended() -> None:
    mine = backlog(10)
    assert offsets(mine.take(2, RecordReading())) == [0, 1]
    prefetched = prefetch(mine)
    assert offsets(prefetched.take(3)) == [2, 3, 4]
    assert offsets(prefetched.take(2)) == [5, 6]
    assert mine.position.offset == 2
    mine.take_back(prefetched.end())
    assert mine.state.position == mine.position == Position(7, 7)
    assert not mine.is_stale
    assert offsets(mine.take(10, RecordReading())) == [7, 8, 9]


def test_what_is_prefetched_is_decoded_for_it_and_counts_only_as_far_as_it_is_taken() -> None:
    mine = backlog(2, 3)
    prefetched = prefetch(mine)
    assert [next(iter(prefetched)).offset for _ in range(3)] == [0, 1, 2]
    assert mine.position.offset == 0
    mine.take_back(prefetched.end())
    assert mine.position == Position(3, 7)
    assert list(prefetched) == []
    assert offsets(mine.take(10, RecordReading())) == [3, 4]
    assert mine.prefetch(LIMIT, RecordReading()) is None


def test_not_more_is_prefetched_than_was_asked_for() -> None:
    mine = backlog(10)
    prefetched = prefetch(mine, 4)
    assert offsets(list(prefetched)) == [0, 1, 2, 3]
    mine.take_back(prefetched.end())
    assert offsets(list(prefetch(mine, 4))) == [4, 5, 6, 7]


def test_records_that_were_taken_whole_end_their_batches() -> None:
    mine = backlog(2, 3, 1)
    mine.take(1, RecordReading())
    prefetched = prefetch(mine)
    assert offsets(prefetched.take(100)) == [1, 2, 3, 4, 5]
    assert prefetched.take(100) == []
    mine.take_back(prefetched.end())
    assert mine.position == Position(6, 7)
    assert mine.is_empty


def test_what_has_ended_gives_nothing_more() -> None:
    mine = backlog(10)
    mine.take(1, RecordReading())
    prefetched = prefetch(mine)
    assert offsets(prefetched.take(1)) == [1]
    mine.take_back(prefetched.end())
    assert prefetched.take(1) == []
    prefetched = prefetch(mine)
    assert prefetched.end() == 0
    assert list(prefetched) == []
    mine.take_back(0)
    assert mine.position.offset == 2


def test_a_number_of_records_that_makes_no_sense_is_left_to_the_loop() -> None:
    mine = backlog(10)
    mine.take(1, RecordReading())
    prefetched = prefetch(mine)
    assert prefetched.take(0) == []
    assert prefetched.take(-1) == []
    assert prefetched.end() == 0


def test_what_was_lent_before_a_seek_moves_nothing() -> None:
    mine = backlog(10)
    mine.take(1, RecordReading())
    prefetched = prefetch(mine)
    prefetched.take(4)
    mine.state.position = Position(0)
    mine.take_back(prefetched.end())
    assert mine.state.position == Position(0)


def test_an_end_while_another_thread_takes_loses_no_count() -> None:
    for _ in range(20):
        mine = backlog(2_000)
        mine.take(1, RecordReading())
        prefetched = prefetch(mine)
        taken: list[int] = []
        begun = threading.Event()

        def take(
            prefetched: PrefetchedRecords = prefetched, taken: list[int] = taken, begun: threading.Event = begun
        ) -> None:
            while records := prefetched.take(1):
                taken.extend(offsets(records))
                begun.set()

        thread = threading.Thread(target=take)
        thread.start()
        begun.wait(10)
        mine.take_back(prefetched.end())
        thread.join(10)
        assert taken == list(range(1, mine.position.offset))
