"""What becomes of batches: tried again in order, split, given up, and what a doubt leads to."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from levada.client.errors import KafkaError, OutOfOrderSequence, RecordTooLarge, TimedOut
from levada.client.producer import Handle
from levada.model.error_codes import ErrorCode
from tests.unit.client.producer.bench import LEADER, TOPIC, Bench

Story = Callable[[], Awaitable[None]]


def story(function: Story) -> Callable[[], None]:
    """A test on a loop of its own."""

    def run() -> None:
        asyncio.run(function())  # type: ignore[arg-type]

    return run


def offsets(handles: list[Handle]) -> list[int]:
    return [handle.result(0).offset for handle in handles]


async def _five_in_flight_and_in_order() -> None:
    bench = Bench()
    handles = bench.send(7)
    asked = bench.node.take()
    assert [each.batches for each in asked] == [[(0, 0, number, 1)] for number in range(5)]
    asked[0].answer(base_offset=10)
    await bench.turn()
    assert offsets(handles[:1]) == [10]
    assert [each.batches for each in bench.node.take()] == [[(0, 0, 5, 1)]]


test_five_are_in_flight_and_in_order = story(_five_in_flight_and_in_order)


async def _the_first_batch_goes_alone() -> None:
    bench = Bench()
    bench.queue.acknowledged_producer_id = -1
    handles = bench.send(3)
    [first] = bench.node.take()
    first.answer(ErrorCode.NOT_ENOUGH_REPLICAS)
    await bench.turn()
    assert not bench.node.take()
    bench.pass_ms(200)
    [again] = bench.node.take()
    assert again.batches == [(0, 0, 0, 1)]
    again.answer(base_offset=0)
    await bench.turn()
    second, third = bench.node.take()
    second.answer(base_offset=1)
    third.answer(base_offset=2)
    await bench.turn()
    assert offsets(handles) == [0, 1, 2]


test_the_first_batch_goes_alone = story(_the_first_batch_goes_alone)


async def _a_retry_goes_before_what_came_after_it() -> None:
    bench = Bench()
    handles = bench.send(4)
    first, second, third, fourth = bench.node.take()
    first.answer(base_offset=0)
    second.answer(ErrorCode.NOT_ENOUGH_REPLICAS)
    third.answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    fourth.answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    await bench.turn()
    assert not bench.node.take(), "after a pause only"
    for number, base_offset in ((1, 1), (2, 2), (3, 3)):
        bench.pass_ms(200)
        [again] = bench.node.take()
        assert again.batches == [(0, 0, number, 1)]
        again.answer(base_offset=base_offset)
        await bench.turn()
    assert offsets(handles) == [0, 1, 2, 3]
    assert bench.identity.producer_epoch == 0
    assert bench.outcomes.metrics()["record-retry-total"] == 3


test_a_retry_goes_before_what_came_after_it = story(_a_retry_goes_before_what_came_after_it)


async def _without_idempotence_a_retry_lands_behind() -> None:
    bench = Bench(idempotent=False, enable_idempotence=False)
    handles = bench.send(2)
    first, second = bench.node.take()
    assert first.batches == [(0, -1, -1, 1)]
    first.answer(ErrorCode.NOT_ENOUGH_REPLICAS)
    second.answer(base_offset=0)
    await bench.turn()
    bench.pass_ms(200)
    [again] = bench.node.take()
    again.answer(base_offset=1)
    await bench.turn()
    assert offsets(handles) == [1, 0]


test_without_idempotence_a_retry_lands_behind = story(_without_idempotence_a_retry_lands_behind)


async def _a_duplicate_is_as_good_as_acknowledged() -> None:
    bench = Bench()
    [handle] = bench.send()
    bench.node.take()[0].answer(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    await bench.turn()
    assert handle.result(0).offset == -1


test_a_duplicate_is_as_good_as_acknowledged = story(_a_duplicate_is_as_good_as_acknowledged)


async def _retries_end() -> None:
    bench = Bench(retries=2)
    [handle] = bench.send()
    for _ in range(3):
        bench.node.take()[0].answer(ErrorCode.NOT_ENOUGH_REPLICAS)
        await bench.turn()
        bench.pass_ms(200)
    error = handle.exception(0)
    assert error is not None
    assert error.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert bench.failures == [error]
    assert bench.accumulator.free == bench.accumulator.memory


test_retries_end = story(_retries_end)


async def _an_error_for_good_is_told_at_once() -> None:
    bench = Bench()
    told: list[KafkaError | None] = []
    bench.put(on_delivery=lambda _, error: told.append(error))
    bench.accumulator.flush()
    bench.sender.pump()
    bench.node.take()[0].answer(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    await bench.turn()
    assert [error and error.code for error in told] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    # The broker has refused the first sequence and would refuse the second: it must be the first again.
    bench.send()
    assert bench.node.take()[0].batches == [(0, 1, 0, 1)]


test_an_error_for_good_is_told_at_once = story(_an_error_for_good_is_told_at_once)


async def _time_is_up_before_and_on_the_wire() -> None:
    bench = Bench(delivery_timeout_ms=1_000, request_timeout_ms=500, linger_ms=0)
    handles = bench.send(6)
    on_wire = bench.node.take()
    assert len(on_wire) == 5
    bench.pass_ms(999)
    assert not any(handle.done() for handle in handles)
    bench.pass_ms(1)
    for handle in handles:
        error = handle.exception(0)
        assert isinstance(error, TimedOut)
        assert "delivery.timeout.ms" in str(error)
    assert bench.accumulator.free == bench.accumulator.memory
    # What is late is heard all the same: the broker has it all, and nothing is in doubt.
    for each in on_wire:
        each.answer()
    await bench.turn()
    bench.send()
    assert bench.node.take()[0].batches == [(0, 0, 5, 1)]


test_time_is_up_before_and_on_the_wire = story(_time_is_up_before_and_on_the_wire)


async def _after_a_doubt_comes_a_new_epoch() -> None:
    bench = Bench(delivery_timeout_ms=1_000, request_timeout_ms=500, linger_ms=0)
    bench.send(2)
    [first, second] = bench.node.take()
    first.answer()
    bench.pass_ms(1_000)
    waiting = bench.send()
    assert not bench.node.take(), "until the one in doubt is off the wire"
    second.lose()
    await bench.turn()
    assert bench.node.take()[0].batches == [(0, 1, 0, 1)]
    assert not waiting[0].done()
    # The other partitions of this producer go on under the new epoch too.
    assert bench.identity.producer_epoch == 1


test_after_a_doubt_comes_a_new_epoch = story(_after_a_doubt_comes_a_new_epoch)


async def _a_broker_that_forgot_us_gets_a_new_epoch() -> None:
    bench = Bench(partitions=2)
    handles = bench.send(2)
    bench.send(1, partition=1)
    first, second, other = bench.node.take()
    first.answer(ErrorCode.UNKNOWN_PRODUCER_ID)
    await bench.turn()
    bench.pass_ms(200)
    assert not bench.node.take(), "the second is still on the wire, with the old numbers"
    second.answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    other.answer()
    await bench.turn()
    bench.pass_ms(200)
    [again] = bench.node.take()
    assert again.batches == [(0, 1, 0, 1)]
    again.answer(base_offset=0)
    await bench.turn()
    bench.pass_ms(200)
    [again] = bench.node.take()
    assert again.batches == [(0, 1, 1, 1)]
    again.answer(base_offset=1)
    await bench.turn()
    assert offsets(handles) == [0, 1]
    bench.send(1, partition=1)
    assert bench.node.take()[0].batches == [(1, 1, 0, 1)]


test_a_broker_that_forgot_us_gets_a_new_epoch = story(_a_broker_that_forgot_us_gets_a_new_epoch)


async def _in_a_transaction_lost_sequences_are_final() -> None:
    bench = Bench(transactional=True)
    [handle] = bench.send()
    bench.node.take()[0].answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    await bench.turn()
    assert isinstance(handle.exception(0), OutOfOrderSequence)


test_in_a_transaction_lost_sequences_are_final = story(_in_a_transaction_lost_sequences_are_final)


async def _a_batch_too_large_is_sent_in_two() -> None:
    bench = Bench()
    handles = [bench.put(b"%d" % number) for number in range(5)]
    bench.accumulator.flush()
    bench.sender.pump()
    behind = bench.send()
    whole, after = bench.node.take()
    assert (whole.batches, after.batches) == ([(0, 0, 0, 5)], [(0, 0, 5, 1)])
    whole.answer(ErrorCode.MESSAGE_TOO_LARGE)
    after.answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    await bench.turn()
    asked = bench.node.take()
    bench.pass_ms(200)
    asked += bench.node.take()
    assert asked[0].batches == [(0, 0, 0, 3)]
    asked[0].answer(base_offset=20)
    await bench.turn()
    [second] = bench.node.take()
    assert second.batches == [(0, 0, 3, 2)]
    assert not handles[0].done(), "a batch is done as a whole"  # type: ignore[union-attr]
    second.answer(base_offset=30)
    await bench.turn()
    bench.pass_ms(200)
    bench.node.take()[0].answer(base_offset=32)
    await bench.turn()
    assert offsets([handle for handle in handles if handle]) == [20, 21, 22, 30, 31]
    assert offsets(behind) == [32]
    assert bench.accumulator.free == bench.accumulator.memory


test_a_batch_too_large_is_sent_in_two = story(_a_batch_too_large_is_sent_in_two)


async def _one_record_too_large_fails() -> None:
    bench = Bench()
    [handle] = bench.send()
    bench.node.take()[0].answer(ErrorCode.MESSAGE_TOO_LARGE)
    await bench.turn()
    with pytest.raises(RecordTooLarge):
        handle.result(0)


test_one_record_too_large_fails = story(_one_record_too_large_fails)


async def _news_of_a_leader_are_passed_on() -> None:
    bench = Bench()
    bench.send()
    bench.node.take()[0].answer(ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=(LEADER, 4))
    await bench.turn()
    assert bench.cluster.heard == [(TOPIC, 0, LEADER, 4)]
    assert bench.cluster.refreshes


test_news_of_a_leader_are_passed_on = story(_news_of_a_leader_are_passed_on)


async def _partitions_of_a_broker_go_in_one_request() -> None:
    bench = Bench(partitions=3, max_request_size=60_000, batch_size=30_000)
    for partition in range(3):
        bench.put(bytes(25_000), partition)
    bench.accumulator.flush()
    bench.sender.pump()
    sizes = [[partition for partition, *_ in asked.batches] for asked in bench.node.take()]
    assert sizes == [[0, 1], [2]]


test_partitions_of_a_broker_go_in_one_request = story(_partitions_of_a_broker_go_in_one_request)


async def _no_broker_answers_without_acks() -> None:
    bench = Bench(idempotent=False, enable_idempotence=False, acks=0)
    # More than functions can call each other.
    handles = bench.send(1_500)
    assert len(bench.node.take()) == 1_500
    assert offsets(handles) == [-1] * 1_500
    bench.node.is_congested = True
    [waiting] = bench.send()
    assert not bench.node.take()
    assert not waiting.done()


test_no_broker_answers_without_acks = story(_no_broker_answers_without_acks)
