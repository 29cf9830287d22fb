"""Records on their way into batches: memory, linger, and what cannot be encoded."""

import pytest

from levada.client.errors import IllegalState, RecordTooLarge
from tests.unit.client.producer.bench import Bench


def test_records_of_a_queue_share_a_batch_until_it_is_full() -> None:
    bench = Bench(batch_size=300)
    for _ in range(10):
        assert bench.put(bytes(50)) is not None
    batches = list(bench.accumulator.incomplete)
    assert [batch.count for batch in batches][:2] == [4, 4]
    assert sum(batch.count for batch in batches) == 10
    assert list(bench.queue.waiting) == batches[:-1]
    assert bench.queue.open is batches[-1]


def test_only_a_new_batch_wakes_the_loop() -> None:
    bench = Bench()
    for _ in range(100):
        bench.put(b"small")
    assert bench.wakes == 1


def test_a_batch_is_due_after_linger_ms() -> None:
    bench = Bench(linger_ms=20, partitions=2)
    bench.put()
    bench.clock.ms += 5
    bench.put(partition=1)
    assert bench.accumulator.close_due(bench.clock.ms) == 1_020
    assert not bench.accumulator.ready_queues()
    assert bench.accumulator.close_due(1_020) == 1_025
    assert bench.accumulator.ready_queues() == [bench.topic.partitions[0]]
    assert bench.accumulator.close_due(1_025) is None
    assert bench.accumulator.ready_queues() == bench.topic.partitions


def test_memory_is_given_back_once() -> None:
    bench = Bench(buffer_memory=40_000)
    rooms: list[int] = []
    bench.accumulator.on_room = lambda: rooms.append(bench.accumulator.free)
    handles = [bench.put(bytes(12_000)) for _ in range(3)]
    assert [handle is None for handle in handles] == [False, False, True]
    assert bench.accumulator.free == 40_000 - 2 * 16_384
    assert len(bench.queue.waiting) == 2, "without memory nothing waits for company"
    [first, second] = bench.accumulator.incomplete
    before = bench.accumulator.releases
    bench.accumulator.done(first)
    bench.accumulator.done(first)
    assert (bench.accumulator.free, bench.accumulator.releases) == (40_000 - 16_384, before + 1)
    assert bench.put(bytes(12_000)) is not None
    bench.accumulator.done(second)
    assert rooms


def test_a_batch_size_beyond_all_memory_still_lets_records_through() -> None:
    bench = Bench(buffer_memory=4_000, batch_size=16_384)
    assert bench.put(bytes(1_000)) is not None
    assert bench.accumulator.free >= 0


def test_a_record_that_can_never_fit_is_refused() -> None:
    bench = Bench(buffer_memory=50_000, max_request_size=60_000)
    with pytest.raises(RecordTooLarge, match=r"max\.request\.size"):
        bench.put(bytes(60_000))
    with pytest.raises(RecordTooLarge, match=r"buffer\.memory"):
        bench.put(bytes(52_000))
    assert bench.accumulator.free == 50_000


@pytest.mark.parametrize("value", ["text", 5, [1]])
def test_what_cannot_be_encoded_leaves_nothing_behind(value: object) -> None:
    bench = Bench()
    for before in (0, 1):
        with pytest.raises((TypeError, ValueError)):
            bench.put(value)  # type: ignore[arg-type]
        assert len(bench.accumulator.incomplete) == before
        assert bench.put(b"good") is not None
    assert bench.accumulator.free == bench.accumulator.memory - 16_384
    [batch] = bench.accumulator.incomplete
    assert batch.count == 2


def test_flush_lets_everything_go() -> None:
    bench = Bench(partitions=3)
    for partition in range(3):
        bench.put(partition=partition)
    assert len(bench.accumulator.flush()) == 3
    assert all(queue.open is None for queue in bench.topic.partitions)
    assert bench.accumulator.ready_queues() == bench.topic.partitions


def test_after_the_end_no_batch_is_begun() -> None:
    bench = Bench()
    bench.put()
    assert len(bench.accumulator.shut("it is over")) == 1
    with pytest.raises(IllegalState, match="it is over"):
        bench.put()


def test_what_was_begun_long_ago_is_expired() -> None:
    bench = Bench(partitions=2)
    bench.put()
    bench.clock.ms += 10
    bench.put(partition=1)
    expired, next_ms = bench.accumulator.expired(1_000)
    assert [batch.queue.partition for batch in expired] == [0]
    assert next_ms == 1_010
    assert bench.accumulator.expired(999) == ([], 1_000)


def sizes(bench: Bench) -> list[int]:
    """What each batch may take, oldest first."""
    return [batch.reserved for batch in bench.accumulator.incomplete]


def test_batches_that_fill_before_their_time_grow_to_a_megabyte() -> None:
    bench = Bench()
    while len(bench.accumulator.incomplete) < 10:
        assert bench.put(bytes(1_000)) is not None
    grown = [16_384 << step for step in range(6)]
    assert sizes(bench) == [*grown, *[1_000_000] * 4]


def test_batches_that_are_not_half_full_at_their_end_become_small_again() -> None:
    bench = Bench(linger_ms=5)
    while len(bench.accumulator.incomplete) < 3:
        bench.put(bytes(1_000))
    for _ in range(4):
        bench.clock.ms += 5
        assert bench.accumulator.close_due(bench.clock.ms) is None
        bench.put()
    assert sizes(bench) == [16_384, 32_768, 65_536, 32_768, 16_384, 16_384, 16_384]


def test_records_that_come_slowly_are_sent_as_before() -> None:
    bench = Bench(linger_ms=5)
    for _ in range(20):
        for _ in range(10):
            bench.put(bytes(1_000))
        bench.clock.ms += 5
        bench.accumulator.close_due(bench.clock.ms)
    assert set(sizes(bench)) == {16_384}


@pytest.mark.parametrize("size", [16_384, 100_000])
def test_a_batch_size_that_is_given_stays(size: int) -> None:
    bench = Bench(batch_size=size)
    while len(bench.accumulator.incomplete) < 10:
        assert bench.put(bytes(1_000)) is not None
    assert set(sizes(bench)) == {size}


def test_queues_that_grow_leave_memory_to_the_others() -> None:
    bench = Bench(partitions=20, buffer_memory=2_000_000)
    for number in range(20 * 30):
        assert bench.put(bytes(1_000), partition=number % 20) is not None, f"no memory left after {number} records"


def test_a_queue_does_not_grow_beyond_what_its_topic_takes() -> None:
    bench = Bench()
    bench.queue.largest_batch = 50_000
    while len(bench.accumulator.incomplete) < 5:
        bench.put(bytes(1_000))
    assert sizes(bench) == [16_384, *[32_768] * 4]
