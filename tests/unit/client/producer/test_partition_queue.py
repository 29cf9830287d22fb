"""Sequences of one partition's batches, and which may be sent next."""

from levada.client.producer.batch import Batch
from levada.client.producer.partition_queue import FORGOTTEN_AFTER_MS, SEQUENCE_LIMIT, PartitionQueue
from levada.records.writer import BatchWriter


def batch_of(queue: PartitionQueue, count: int = 1) -> Batch:
    batch = Batch(queue, BatchWriter(1_000), 1_000, 0)
    for _ in range(count):
        assert batch.writer.append(0, None, b"v") >= 0
    queue.waiting.append(batch)
    return batch


def sent(queue: PartitionQueue, count: int = 1) -> Batch:
    """The next batch of the queue, numbered and on the wire."""
    batch = batch_of(queue, count)
    assert queue.next_batch(0) is batch
    queue.waiting.popleft()
    queue.number(batch)
    batch.is_on_wire = True
    return batch


def queue_of() -> PartitionQueue:
    """Of a producer that the leader knows already."""
    queue = PartitionQueue("t", 0)
    queue.adopt(7, 2)
    queue.acknowledged_producer_id = 7
    return queue


def test_sequences_count_records() -> None:
    queue = queue_of()
    batches = [sent(queue, 3), sent(queue, 2), sent(queue, 1)]
    assert [batch.base_sequence for batch in batches] == [0, 3, 5]
    assert {(batch.producer_id, batch.producer_epoch) for batch in batches} == {(7, 2)}


def test_the_first_batch_goes_alone_until_the_leader_knows_the_producer() -> None:
    """Else it takes the second as the first, and the first, once refused, for a duplicate (KAFKA-14359)."""
    queue = queue_of()
    queue.acknowledged_producer_id = -1
    first = sent(queue)
    second = batch_of(queue)
    assert queue.next_batch(0) is None
    queue.acknowledged(first)
    queue.unresolved.remove(first)
    assert queue.next_batch(0) is second


def test_after_a_long_time_the_leader_may_have_forgotten_the_producer() -> None:
    queue = queue_of()
    queue.acknowledged(sent(queue))
    queue.unresolved.clear()
    sent(queue).created_ms = FORGOTTEN_AFTER_MS
    batch_of(queue)
    assert queue.next_batch(FORGOTTEN_AFTER_MS) is None


def test_after_an_epoch_the_leader_still_knows_the_producer() -> None:
    queue = queue_of()
    queue.adopt(7, 3)
    sent(queue)
    second = batch_of(queue)
    assert queue.next_batch(0) is second
    other = queue_of()
    other.adopt(8, 0)
    sent(other)
    batch_of(other)
    assert other.next_batch(0) is None, "another producer id is another producer"


def test_sequences_begin_again_at_their_limit() -> None:
    queue = queue_of()
    queue.next_sequence = SEQUENCE_LIMIT - 2
    first, second = sent(queue, 3), sent(queue, 1)
    assert (first.base_sequence, second.base_sequence) == (SEQUENCE_LIMIT - 2, 1)
    queue.acknowledged(first)
    assert queue.last_acknowledged == 0
    assert queue.is_next(second)


def test_a_batch_to_be_repeated_goes_alone_and_first() -> None:
    queue = queue_of()
    first, second = sent(queue), sent(queue)
    waiting = batch_of(queue)
    first.is_on_wire = second.is_on_wire = False
    assert queue.next_batch(0) is first
    first.is_on_wire = True
    assert queue.next_batch(0) is None, "the second waits for the first, and the third for both"
    queue.unresolved.remove(first)
    assert queue.next_batch(0) is second
    second.is_on_wire = True
    assert queue.next_batch(0) is waiting


def test_a_pause_before_a_repetition_holds_up_all_behind_it() -> None:
    queue = queue_of()
    first = sent(queue)
    batch_of(queue)
    first.is_on_wire = False
    first.retry_at_ms = 50
    assert queue.next_batch(49) is None
    assert queue.next_batch(50) is first


def test_nothing_new_goes_out_while_one_is_in_doubt() -> None:
    queue = queue_of()
    queue.in_doubt = True
    waiting = batch_of(queue)
    assert queue.next_batch(0) is None
    queue.adopt(7, 3)
    assert queue.next_batch(0) is waiting


def test_adopting_another_identity_numbers_what_is_left_from_0() -> None:
    queue = queue_of()
    first, second, third = sent(queue, 2), sent(queue, 3), sent(queue, 1)
    queue.acknowledged(first)
    queue.unresolved.remove(first)
    second.is_on_wire = third.is_on_wire = False
    queue.needs_new_epoch = True
    assert queue.next_batch(0) is None
    queue.adopt(7, 3)
    assert [(each.producer_epoch, each.base_sequence) for each in (second, third)] == [(3, 0), (3, 3)]
    assert queue.next_batch(0) is second
    assert queue.next_sequence == 4
    assert list(queue.batches()) == [second, third]


def test_what_an_older_identity_is_told_changes_nothing() -> None:
    queue = queue_of()
    old = sent(queue)
    old.is_on_wire = False
    queue.unresolved.clear()
    queue.adopt(7, 3)
    queue.acknowledged(old)
    assert queue.is_next(sent(queue))
