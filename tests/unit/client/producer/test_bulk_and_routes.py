"""Many records at once, and the partitions that records go to."""

from typing import Any

import pyarrow as pa
import pytest

from levada.client.errors import RecordTooLarge
from levada.client.producer.batch import Batch
from levada.client.producer.bulk import ArrowRows, Bulk, ListRows
from levada.client.producer.partition_queue import PartitionQueue
from levada.model.hashes import partition_for_key
from tests.unit.client.producer.bench import Bench


def bulk_of(bench: Bench, values: list[Any], keys: list[Any] | None = None, partition: int | None = None) -> Bulk:
    return Bulk(bench.accumulator, bench.routes, bench.topic, ListRows(values, keys, 5), partition)


def finish(bulk: Bulk) -> None:
    for _ in range(1_000):
        if bulk.is_done:
            return
        assert bulk.step()
    raise AssertionError("it does not end")


def values_in(bench: Bench) -> dict[int, list[Any]]:
    """Of each partition, in order."""
    return {
        queue.partition: [record[2] for batch in queue.batches() for record in batch.writer.records()]
        for queue in bench.topic.partitions
    }


def test_a_named_partition_gets_everything_in_order() -> None:
    bench = Bench(partitions=3, batch_size=500)
    values = [b"%d" % number for number in range(500)]
    bulk = bulk_of(bench, values, partition=1)
    finish(bulk)
    assert values_in(bench) == {0: [], 1: values, 2: []}
    assert sum(batch.count for batch in bulk.batches) == 500
    assert bulk.handle().count == 500


def test_keys_choose_as_one_by_one() -> None:
    bench = Bench(partitions=5, batch_size=500)
    keys = [b"k%d" % number if number % 4 else None for number in range(300)]
    values = [b"%d" % number for number in range(300)]
    finish(bulk_of(bench, values, keys))
    found = values_in(bench)
    assert sorted(value for each in found.values() for value in each) == sorted(values)
    for key, value in zip(keys, values):
        if key is not None:
            assert value in found[partition_for_key(key, 5)]
    without = {partition for partition, each in found.items() for value in each if not int(value) % 4}
    assert len(without) == 1, "those without a key stick together"


def test_without_keys_whole_batches_take_turns() -> None:
    bench = Bench(partitions=4, batch_size=1_000)
    finish(bulk_of(bench, [bytes(50)] * 1_000))
    assert sum(len(each) for each in values_in(bench).values()) == 1_000
    full = [batch for queue in bench.topic.partitions for batch in queue.waiting]
    assert {batch.count for batch in full} == {full[0].count}


def test_a_bulk_waits_for_memory_and_goes_on() -> None:
    bench = Bench(buffer_memory=40_000)
    bulk = bulk_of(bench, [b"%05d" % number + bytes(1_000) for number in range(100)], partition=0)
    while bulk.step():
        assert not bulk.is_done
    assert bulk.releases == bench.accumulator.releases
    done: list[Batch] = []
    while not bulk.is_done:
        if not bulk.step():
            batch = bench.queue.waiting.popleft()
            done.append(batch)
            bench.accumulator.done(batch)
            assert bench.accumulator.releases > bulk.releases, "a send that waits for memory need not"
    numbers = [
        int(bytes(record[2] or b"")[:5])
        for batch in [*done, *bench.queue.batches()]
        for record in batch.writer.records()
    ]
    assert numbers == list(range(100))


def test_a_row_that_cannot_be_encoded_ends_it_with_what_was_before() -> None:
    bench = Bench()
    bulk = bulk_of(bench, [b"one", b"two", "three", b"four"], partition=0)
    with pytest.raises((TypeError, ValueError)):
        finish(bulk)
    assert values_in(bench)[0] in ([b"one", b"two"], [])
    bench.put(b"after")
    held = sum(batch.reserved for batch in bench.accumulator.incomplete)
    assert bench.accumulator.free == bench.accumulator.memory - held
    assert values_in(bench)[0][-1] == b"after"


def test_a_row_that_is_too_large_ends_it() -> None:
    bench = Bench(max_request_size=10_000)
    with pytest.raises(RecordTooLarge):
        finish(bulk_of(bench, [b"small", bytes(20_000)], partition=0))


def test_keys_and_values_must_be_as_many() -> None:
    with pytest.raises(ValueError, match="1 keys for 2 values"):
        ListRows([b"a", b"b"], [b"k"], 0)


def test_the_users_partitioner_sees_every_row() -> None:
    seen: list[Any] = []

    def by_length(topic: str, key: bytes | None, value: bytes | None, count: int, available: Any) -> int:
        seen.append((topic, key, value))
        return len(value or b"") % count

    bench = Bench(partitions=3, partitioner_class=by_length)
    finish(bulk_of(bench, [b"", b"1", b"22", b"333"], [None, b"a", b"b", None]))
    assert values_in(bench) == {0: [b"", b"333"], 1: [b"1"], 2: [b"22"]}
    assert seen == [("t", None, b""), ("t", b"a", b"1"), ("t", b"b", b"22"), ("t", None, b"333")]


def test_arrow_rows_are_the_same_rows() -> None:
    values = [b"%d" % number for number in range(300)]
    keys = [b"k%d" % number if number % 4 else None for number in range(300)]
    lists, columns = Bench(partitions=5), Bench(partitions=5)
    finish(bulk_of(lists, values, keys))
    batch = pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary()), "key": pa.array(keys, pa.binary())})
    finish(Bulk(columns.accumulator, columns.routes, columns.topic, ArrowRows(batch, 5), None))
    assert values_in(columns) == values_in(lists)


def test_arrow_rows_may_name_their_partitions() -> None:
    columns = {"value": pa.array([b"a", b"b", b"c"], pa.binary()), "partition": pa.array([2, 0, 2], pa.int32())}
    bench = Bench(partitions=3)
    finish(Bulk(bench.accumulator, bench.routes, bench.topic, ArrowRows(pa.RecordBatch.from_pydict(columns), 5), None))
    assert values_in(bench) == {0: [b"b"], 1: [], 2: [b"a", b"c"]}
    small = Bench(partitions=2)
    with pytest.raises(ValueError, match="no partition 2"):
        Bulk(small.accumulator, small.routes, small.topic, ArrowRows(pa.RecordBatch.from_pydict(columns), 5), None)


# Routes


def put_sticky(bench: Bench) -> PartitionQueue:
    """As a send of a record without a key does it."""
    queue = bench.routes.sticky(bench.topic)
    arguments = (bench.clock.now_ms(), None, bytes(100), (), None)
    if bench.accumulator.append_open(queue, *arguments) is None:
        if bench.accumulator.close_full(queue):
            queue = bench.routes.is_full(bench.topic, queue)
        bench.accumulator.append(queue, *arguments)
    return queue


def test_the_sticky_partition_changes_with_the_batch() -> None:
    bench = Bench(partitions=4, batch_size=1_000, partitioner_adaptive_partitioning_enable=False)
    queues = [put_sticky(bench) for _ in range(100)]
    counts = [batch.count for queue in bench.topic.partitions for batch in queue.waiting]
    assert set(counts) == {counts[0]}, "only full batches are sent"
    assert all(queues[number] is queues[0] for number in range(counts[0]))


def test_a_topic_that_grows_gets_more_queues_and_keeps_the_old_ones() -> None:
    small, large = Bench(partitions=2), Bench(partitions=4)
    before = list(small.topic.partitions)
    small.routes.add(large.cluster.topic_view)
    assert small.topic.count == 4
    assert small.topic.partitions[:2] == before
    small.routes.add(Bench(partitions=2).cluster.topic_view)
    assert small.topic.count == 2
    assert len(small.topic.partitions) == 4, "what is on its way to a partition that is gone needs a queue still"


def test_keys_go_where_every_client_looks_for_them() -> None:
    bench = Bench(partitions=7)
    for number in range(50):
        key = b"key-%d" % number
        assert bench.routes.queue(bench.topic, key, b"v").partition == partition_for_key(key, 7)
