"""What a send gives back: asked from threads, awaited on the loop, and of batches that were split."""

import asyncio
import threading
import time

import pytest

from levada.client.errors import IllegalState, KafkaError, RecordTooLarge, TimedOut
from levada.client.producer import Handle, ManyHandle
from levada.client.producer.batch import Batch
from levada.client.producer.partition_queue import PartitionQueue
from levada.client.types import RecordMetadata
from levada.records.writer import BatchWriter

SOON_SECONDS = 0.05


def batch_of(count: int = 2) -> Batch:
    batch = Batch(PartitionQueue("t", 3), BatchWriter(1_000), 1_000, 0)
    for number in range(count):
        batch.writer.append(number, None, b"v")
    return batch


def handles_of(batch: Batch) -> list[Handle]:
    return [Handle(batch, index, 100 + index) for index in range(batch.count)]


def test_a_place_is_told_for_each_record() -> None:
    batch = batch_of()
    first, second = handles_of(batch)
    assert not first.done()
    batch.succeed(40, -1)
    assert first.done()
    assert [first.result(), second.result(0)] == [RecordMetadata("t", 3, 40, 100), RecordMetadata("t", 3, 41, 101)]
    assert second.exception() is None


def test_the_brokers_time_is_told_where_it_has_one() -> None:
    batch = batch_of(1)
    batch.succeed(0, 777)
    assert handles_of(batch)[0].result().timestamp_ms == 777


def test_a_failure_is_raised_or_given_as_one_asks() -> None:
    batch = batch_of()
    error = RecordTooLarge("too large")
    batch.fail(error)
    for handle in handles_of(batch):
        assert handle.exception() is error
        with pytest.raises(RecordTooLarge):
            handle.result()


def test_a_thread_waits_and_is_woken() -> None:
    batch = batch_of()
    threading.Timer(SOON_SECONDS, batch.succeed, (5, -1)).start()
    assert handles_of(batch)[1].result(10).offset == 6


def test_a_thread_waits_no_longer_than_it_says() -> None:
    batch = batch_of()
    handle = handles_of(batch)[0]
    start = time.monotonic()
    with pytest.raises(TimedOut, match="still on its way"):
        handle.result(SOON_SECONDS)
    with pytest.raises(TimedOut):
        handle.exception(0)
    assert time.monotonic() - start < 5
    batch.succeed(0, -1)
    assert handle.result(0).offset == 0


def test_a_timeout_that_is_the_outcome_is_not_one_of_the_wait() -> None:
    batch = batch_of()
    error = TimedOut("delivery.timeout.ms is over")
    batch.fail(error)
    assert handles_of(batch)[0].exception(0) is error


def test_many_wait_for_one_batch() -> None:
    batch = batch_of(3)
    results: list[int] = []
    threads = [
        threading.Thread(target=lambda handle=handle: results.append(handle.result(10).offset))
        for handle in handles_of(batch)
    ]
    for thread in threads:
        thread.start()
    batch.succeed(7, -1)
    for thread in threads:
        thread.join(10)
    assert sorted(results) == [7, 8, 9]


def test_on_the_loop_a_handle_is_awaited_and_not_waited_for() -> None:
    async def main() -> None:
        batch = batch_of()
        first, second = handles_of(batch)
        with pytest.raises(IllegalState, match="await"):
            first.result(1)
        asyncio.get_running_loop().call_soon(batch.succeed, 2, -1)
        assert (await first).offset == 2
        assert second.result().offset == 3, "nothing to wait for"

    asyncio.run(main())


def test_a_caller_that_is_cancelled_takes_the_batch_from_no_other() -> None:
    async def main() -> None:
        batch = batch_of()
        first, second = handles_of(batch)

        async def wait(handle: Handle) -> int:
            return (await handle).offset

        tasks = [asyncio.create_task(wait(handle)) for handle in (first, second)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        await asyncio.sleep(0)
        batch.succeed(0, -1)
        assert await tasks[1] == 1
        assert (await first).offset == 0

    asyncio.run(main())


def test_a_split_batch_is_done_when_its_parts_are() -> None:
    batch = batch_of(5)
    handles = handles_of(batch)
    told: list[tuple[RecordMetadata | None, KafkaError | None]] = []
    for handle in handles:
        batch.tell(handles.index(handle), 0, lambda *outcome: told.append(outcome))
    parts = [batch_of(3), batch_of(2)]
    batch.split(parts)
    parts[0].succeed(10, -1)
    assert not batch.is_done
    assert not told
    error = RecordTooLarge("one alone is too large")
    parts[1].fail(error)
    assert [handle.exception() for handle in handles] == [None, None, None, error, error]
    assert [handle.result().offset for handle in handles[:3]] == [10, 11, 12]
    assert [metadata.offset for metadata, _ in told if metadata] == [10, 11, 12]
    assert batch.failure() is error


def test_a_callback_that_fails_keeps_nothing_from_the_others(caplog: pytest.LogCaptureFixture) -> None:
    batch = batch_of()
    told: list[int] = []

    def fail(*_: object) -> None:
        raise RuntimeError("of the user's")

    batch.tell(0, 0, fail)
    batch.tell(1, 0, lambda metadata, _: told.append(metadata.offset if metadata else -1))
    batch.succeed(0, -1)
    assert told == [1]
    assert "a delivery callback failed" in caplog.text


def test_a_bulk_is_done_when_all_its_batches_are() -> None:
    batches = [batch_of(), batch_of()]
    handle = ManyHandle(batches, 4)
    batches[0].succeed(0, -1)
    assert not handle.done()
    with pytest.raises(TimedOut):
        handle.result(0)
    threading.Timer(SOON_SECONDS, batches[1].succeed, (9, -1)).start()
    assert handle.result(10) == 4
    assert handle.done()
    failed = ManyHandle([batches[0], batch_of()], 4)
    failed._batches[1].fail(RecordTooLarge("too large"))
    with pytest.raises(RecordTooLarge):
        failed.result()


def test_in_another_process_a_batch_has_failed_and_calls_no_callback() -> None:
    batch = batch_of()
    told: list[object] = []
    batch.tell(0, 0, lambda *outcome: told.append(outcome))
    batch.orphan(IllegalState("made before a fork"))
    with pytest.raises(IllegalState, match="fork"):
        handles_of(batch)[0].result()
    assert not told
