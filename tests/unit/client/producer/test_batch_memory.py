"""Memory of batches is used again, never while a view of it is left, and never beyond `buffer.memory`."""

import asyncio
import random
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, cast

import pytest

from levada.client.cluster import PartitionView
from levada.client.errors import KafkaError
from levada.client.producer.batch import Batch
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.produce import ProduceRequest
from levada.records import BatchView, Codec
from levada.records.writer import BatchWriter, write_lists
from tests.unit.client.producer.bench import LEADER, Asked, Bench, FakeNode

CAPACITY = 4_000
BATCH_SIZE = 100_000
OTHER_LEADER = 2
NOW_MS = 1_700_000_000_000


def sealed(writer: BatchWriter, codec: Codec = Codec.NONE) -> memoryview:
    return writer.seal(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=False, codec=codec)


def filled(size: int = 1_000, capacity: int = CAPACITY, memory: bytearray | None = None) -> BatchWriter:
    writer = BatchWriter(capacity, memory)
    assert writer.append(NOW_MS, None, random.Random(size).randbytes(size)) == 0
    return writer


def given_back(writer: BatchWriter) -> bytearray:
    sealed(writer)
    memory = writer.give_back()
    assert memory is not None
    return memory


# The writer


def test_a_sealed_batch_gives_its_memory_back_once() -> None:
    writer = filled()
    memory = sealed(writer).obj
    assert writer.give_back() is memory
    assert writer.give_back() is not memory, "the same memory cannot be had a second time"


def test_memory_is_not_given_back_while_there_is_a_view_of_it() -> None:
    writer = filled()
    view = sealed(writer)
    part = view[100:200]
    view.release()
    assert writer.give_back() is None
    part.release()
    assert writer.give_back() is not None


def test_what_a_batch_without_seal_has_is_not_given_back() -> None:
    writer = filled()
    assert writer.give_back() is None
    writer.stop()
    assert writer.give_back() is None
    assert BatchView(sealed(writer)).record_count == 1


def test_what_is_compressed_is_not_given_back() -> None:
    writer = filled()
    view = sealed(writer, Codec.GZIP)
    view.release()
    assert writer.give_back() is None


@pytest.mark.parametrize("first", [10, 3_000])
@pytest.mark.parametrize("second", [10, 3_000, 3_900])
def test_a_batch_in_memory_that_was_used_is_like_any_other(first: int, second: int) -> None:
    memory = given_back(filled(first))
    again = filled(second, memory=memory)
    assert bytes(sealed(again)) == bytes(sealed(filled(second)))
    assert sealed(again).obj is memory


def test_a_record_larger_than_the_batch_still_has_room_in_used_memory() -> None:
    again = filled(10 * CAPACITY, memory=given_back(filled()))
    assert bytes(sealed(again)) == bytes(sealed(filled(10 * CAPACITY)))


def test_memory_of_another_size_is_made_to_fit() -> None:
    for capacity in (1, 70, 10_000):
        again = filled(50, capacity=capacity, memory=given_back(filled()))
        assert again.append(NOW_MS, None, bytes(9_000)) == (1 if capacity == 10_000 else -1)
        assert BatchView(sealed(again)).crc_is_valid()


def test_memory_that_has_a_view_is_refused() -> None:
    memory = given_back(filled(10))
    with memoryview(memory), pytest.raises(BufferError):
        BatchWriter(CAPACITY, memory)


def test_a_batch_that_was_given_back_takes_and_sends_nothing() -> None:
    writer = filled()
    memory = given_back(writer)
    other = filled(500, memory=memory)
    before = bytes(sealed(other))
    assert writer.append(NOW_MS, None, b"late") == -1
    assert write_lists([writer], None, NOW_MS, None, [b"late"], 0, 1) == 0
    for use in (sealed, BatchWriter.records):
        with pytest.raises(Exception, match=r"buffer|end|short|records|bytes"):
            use(writer)
    writer.stop()
    assert (writer.count, writer.append(NOW_MS, None, b"later")) == (1, -1)
    assert bytes(sealed(other)) == before


# The accumulator

Story = Callable[[], Awaitable[None]]


def story(function: Story) -> Callable[[], None]:
    """A test on a loop of its own."""

    def run() -> None:
        asyncio.run(function())  # type: ignore[arg-type]

    return run


def bench_of(**options: Any) -> Bench:
    return Bench(**{"batch_size": BATCH_SIZE, "buffer_memory": 10 * BATCH_SIZE, "linger_ms": 0, **options})


def memory_in(asked: Asked) -> list[object]:
    return [cast(memoryview, part.records).obj for each in asked.request.topic_data for part in each.partition_data]


async def sent(bench: Bench, value: bytes, partition: int = 0) -> Asked:
    """One batch on its way."""
    assert bench.put(value, partition) is not None
    bench.pass_ms(1)
    [asked] = bench.node.take()
    return asked


async def answered(bench: Bench, asked: Asked, code: ErrorCode = ErrorCode.NONE) -> None:
    asked.answer(code)
    # The transport has sent it, and the sender has kept nothing of it.
    asked.request.topic_data.clear()
    await bench.turn()


async def _memory_is_used_again() -> None:
    bench = bench_of()
    first = await sent(bench, bytes(50_000))
    [memory] = memory_in(first)
    await answered(bench, first)
    second = await sent(bench, b"2" * 60_000)
    assert memory_in(second)[0] is memory
    [view] = [part.records for part in second.request.topic_data[0].partition_data]
    assert BatchView(cast(memoryview, view)).records()[0].value == b"2" * 60_000


test_memory_of_a_batch_that_is_done_is_used_again = story(_memory_is_used_again)


async def _memory_in_a_transport_is_left_alone() -> None:
    bench = bench_of(partitions=2, delivery_timeout_ms=30_000, request_timeout_ms=30_000)
    first = await sent(bench, b"1" * 50_000)
    in_transport = cast(memoryview, first.request.topic_data[0].partition_data[0].records)
    before = bytes(in_transport)
    bench.pass_ms(31_000)
    assert not bench.accumulator.incomplete, "it has expired"
    assert bench.accumulator.free == bench.accumulator.memory
    for number in range(5):
        later = await sent(bench, b"%d" % number * 50_000, partition=1)
        assert memory_in(later)[0] is not in_transport.obj
        assert in_transport == before
        await answered(bench, later)


test_memory_of_an_expired_batch_is_left_alone_while_a_transport_has_it = story(_memory_in_a_transport_is_left_alone)


async def _a_late_answer_to_an_expired_batch_changes_nothing() -> None:
    bench = bench_of(partitions=2, delivery_timeout_ms=30_000, request_timeout_ms=30_000)
    for code in (ErrorCode.NONE, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NOT_ENOUGH_REPLICAS):
        # Of several records, so that it could be split.
        bench.put(b"0" * 20_000)
        expired = await sent(bench, b"1" * 20_000)
        expired.answer(code)
        [memory] = memory_in(expired)
        expired.request.topic_data.clear()
        bench.pass_ms(31_000)
        later = await sent(bench, b"2" * 50_000, partition=1)
        assert memory_in(later)[0] is memory
        await bench.turn()
        bench.pass_ms(1_000)
        view = cast(memoryview, later.request.topic_data[0].partition_data[0].records)
        assert BatchView(view).crc_is_valid()
        assert BatchView(view).records()[0].value == b"2" * 50_000
        assert len(bench.accumulator.incomplete) == 1, "nothing of what has expired comes again"
        del view
        await answered(bench, later)
        assert bench.accumulator.free == bench.accumulator.memory


test_a_late_answer_to_an_expired_batch_changes_nothing = story(_a_late_answer_to_an_expired_batch_changes_nothing)


async def _a_batch_is_the_same_when_it_is_sent_again() -> None:
    bench = bench_of(partitions=2)
    first = await sent(bench, b"1" * 50_000)
    before = b"".join(bytes(cast(memoryview, part.records)) for part in first.request.topic_data[0].partition_data)
    await answered(bench, first, ErrorCode.NOT_ENOUGH_REPLICAS)
    other = await sent(bench, b"2" * 50_000, partition=1)
    await answered(bench, other)
    bench.pass_ms(200)
    [again] = bench.node.take()
    assert again.request.topic_data[0].partition_data[0].records == before


test_a_batch_that_waits_to_be_sent_again_keeps_its_memory = story(_a_batch_is_the_same_when_it_is_sent_again)


async def _compressed_batches_share_nothing() -> None:
    bench = bench_of(compression_type="gzip")
    memories: list[object] = []
    for _ in range(5):
        asked = await sent(bench, bytes(50_000))
        memories += memory_in(asked)
        await answered(bench, asked)
    assert len(set(map(id, memories))) == 5


test_memory_of_compressed_batches_is_not_used_again = story(_compressed_batches_share_nothing)


# How much there is of it


@pytest.fixture
def held() -> Iterator[Callable[[], int]]:
    """How many bytes were allocated since, and are held still."""
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("seed", range(3))
def test_batches_and_spare_memory_together_stay_within_buffer_memory(held: Callable[[], int], seed: int) -> None:
    chance = random.Random(seed)
    memory = 20 * BATCH_SIZE
    large, usual = bytes(7 * BATCH_SIZE), bytes(BATCH_SIZE * 9 // 10)

    async def main() -> int:
        bench = bench_of(partitions=30, buffer_memory=memory)
        before, most, taken = held(), 0, 0
        for _ in range(600):
            # Waves: now mostly large records, now mostly usual ones, so that what is spare is of no use for long.
            value = large if chance.random() < chance.choice((0.05, 0.9)) else usual
            taken += bench.put(value, chance.randrange(30)) is not None
            bench.pass_ms(1)
            for asked in bench.node.asked[: chance.choice((0, 0, 1, 3))]:
                bench.node.asked.remove(asked)
                await answered(bench, asked)
            most = max(most, held() - before)
            assert bench.accumulator.free >= 0
        assert taken > 100
        return most

    # A bytearray that grew has up to an eighth more than was asked for.
    assert asyncio.run(main()) < memory * 9 // 8 + BATCH_SIZE


def test_parts_of_batches_that_were_split_take_the_place_of_spare_memory(held: Callable[[], int]) -> None:
    memory = 16 * BATCH_SIZE
    value = bytes(BATCH_SIZE // 10)

    async def main() -> int:
        bench = bench_of(partitions=16, buffer_memory=memory, max_request_size=BATCH_SIZE)
        before = held()
        for _ in range(9):
            for partition in range(16):
                assert bench.put(value, partition) is not None
        for _ in range(16):
            bench.pass_ms(1)
            for asked in bench.node.take():
                await answered(bench, asked, ErrorCode.MESSAGE_TOO_LARGE)
                if len(bench.accumulator.incomplete) == 32:
                    return held() - before
        raise AssertionError("not all were split")

    # Each part is half a batch, in memory that grew by doubling.
    assert asyncio.run(main()) < memory * 3 // 2


# One request fails, and takes others with it


async def _what_was_given_up_meanwhile_is_not_sent() -> None:
    bench = bench_of(partitions=2)
    nodes = {LEADER: bench.node, OTHER_LEADER: FakeNode()}
    bench.cluster.node = nodes.__getitem__  # type: ignore[method-assign, assignment]
    views = cast(list[PartitionView], bench.cluster.topic_view.partitions)
    views[1] = PartitionView(1, OTHER_LEADER, 0, [OTHER_LEADER], [OTHER_LEADER], [])
    given_up: list[Batch] = []

    def give_up_the_other(metadata: object, error: KafkaError | None) -> None:
        """As a transaction does that has lost a batch."""
        [other] = bench.topic.partitions[1].unresolved
        given_up.append(other)
        bench.outcomes.give_up(other, KafkaError("the transaction is lost"))

    bench.put(b"1" * 1_000, 0, give_up_the_other)
    bench.put(b"2" * 1_000, 1)
    bench.pass_ms(1)
    for node in nodes.values():
        [asked] = node.take()
        await answered(bench, asked, ErrorCode.NOT_ENOUGH_REPLICAS)

    def refuse(request: ProduceRequest, version: int, timeout_ms: float) -> Any:
        raise KafkaError("cannot be sent")

    nodes[LEADER].post = refuse  # type: ignore[method-assign]
    bench.pass_ms(200)
    assert [batch.is_done for batch in given_up] == [True]
    assert not nodes[OTHER_LEADER].take()
    assert not bench.topic.partitions[1].is_on_wire
    assert bench.accumulator.free == bench.accumulator.memory


test_what_was_given_up_since_it_was_chosen_is_not_sent = story(_what_was_given_up_meanwhile_is_not_sent)
