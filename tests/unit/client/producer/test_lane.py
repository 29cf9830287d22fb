"""Sequences of one partition's batches, and which may be sent next."""

from levada.client.producer.batch import Batch
from levada.client.producer.lane import FORGOTTEN_AFTER_MS, SEQUENCE_LIMIT, Lane
from levada.records.writer import BatchWriter


def batch_of(lane: Lane, count: int = 1) -> Batch:
    batch = Batch(lane, BatchWriter(1_000), 1_000, 0)
    for _ in range(count):
        assert batch.writer.append(0, None, b"v") >= 0
    lane.queue.append(batch)
    return batch


def sent(lane: Lane, count: int = 1) -> Batch:
    """The next batch of the queue, numbered and on the wire."""
    batch = batch_of(lane, count)
    assert lane.next_batch(0) is batch
    lane.queue.popleft()
    lane.number(batch)
    batch.is_on_wire = True
    return batch


def lane_of() -> Lane:
    """Of a producer that the leader knows already."""
    lane = Lane("t", 0)
    lane.adopt(7, 2)
    lane.acquainted_with = 7
    return lane


def test_sequences_count_records() -> None:
    lane = lane_of()
    batches = [sent(lane, 3), sent(lane, 2), sent(lane, 1)]
    assert [batch.base_sequence for batch in batches] == [0, 3, 5]
    assert {(batch.producer_id, batch.producer_epoch) for batch in batches} == {(7, 2)}


def test_the_first_batch_goes_alone_until_the_leader_knows_the_producer() -> None:
    """Else it takes the second as the first, and the first, once refused, for a duplicate (KAFKA-14359)."""
    lane = lane_of()
    lane.acquainted_with = -1
    first = sent(lane)
    second = batch_of(lane)
    assert lane.next_batch(0) is None
    lane.acknowledged(first)
    lane.unresolved.remove(first)
    assert lane.next_batch(0) is second


def test_after_a_long_time_the_leader_may_have_forgotten_the_producer() -> None:
    lane = lane_of()
    lane.acknowledged(sent(lane))
    lane.unresolved.clear()
    sent(lane).created_ms = FORGOTTEN_AFTER_MS
    batch_of(lane)
    assert lane.next_batch(FORGOTTEN_AFTER_MS) is None


def test_after_an_epoch_the_leader_still_knows_the_producer() -> None:
    lane = lane_of()
    lane.adopt(7, 3)
    sent(lane)
    second = batch_of(lane)
    assert lane.next_batch(0) is second
    other = lane_of()
    other.adopt(8, 0)
    sent(other)
    batch_of(other)
    assert other.next_batch(0) is None, "another producer id is another producer"


def test_sequences_begin_again_at_their_limit() -> None:
    lane = lane_of()
    lane.next_sequence = SEQUENCE_LIMIT - 2
    first, second = sent(lane, 3), sent(lane, 1)
    assert (first.base_sequence, second.base_sequence) == (SEQUENCE_LIMIT - 2, 1)
    lane.acknowledged(first)
    assert lane.last_acknowledged == 0
    assert lane.is_next(second)


def test_a_batch_to_be_repeated_goes_alone_and_first() -> None:
    lane = lane_of()
    first, second = sent(lane), sent(lane)
    waiting = batch_of(lane)
    first.is_on_wire = second.is_on_wire = False
    assert lane.next_batch(0) is first
    first.is_on_wire = True
    assert lane.next_batch(0) is None, "the second waits for the first, and the third for both"
    lane.unresolved.remove(first)
    assert lane.next_batch(0) is second
    second.is_on_wire = True
    assert lane.next_batch(0) is waiting


def test_a_pause_before_a_repetition_holds_up_all_behind_it() -> None:
    lane = lane_of()
    first = sent(lane)
    batch_of(lane)
    first.is_on_wire = False
    first.retry_at_ms = 50
    assert lane.next_batch(49) is None
    assert lane.next_batch(50) is first


def test_nothing_new_goes_out_while_one_is_in_doubt() -> None:
    lane = lane_of()
    lane.in_doubt = True
    waiting = batch_of(lane)
    assert lane.next_batch(0) is None
    lane.adopt(7, 3)
    assert lane.next_batch(0) is waiting


def test_adopting_another_identity_numbers_what_is_left_from_0() -> None:
    lane = lane_of()
    first, second, third = sent(lane, 2), sent(lane, 3), sent(lane, 1)
    lane.acknowledged(first)
    lane.unresolved.remove(first)
    second.is_on_wire = third.is_on_wire = False
    lane.needs_new_epoch = True
    assert lane.next_batch(0) is None
    lane.adopt(7, 3)
    assert [(each.producer_epoch, each.base_sequence) for each in (second, third)] == [(3, 0), (3, 3)]
    assert lane.next_batch(0) is second
    assert lane.next_sequence == 4
    assert list(lane.batches()) == [second, third]


def test_what_an_older_identity_is_told_changes_nothing() -> None:
    lane = lane_of()
    old = sent(lane)
    old.is_on_wire = False
    lane.unresolved.clear()
    lane.adopt(7, 3)
    lane.acknowledged(old)
    assert lane.is_next(sent(lane))
