"""Whole batches as Arrow: how much at once, and what happens to batches that cannot be decoded."""

import builtins
from typing import Any, cast

import pytest

from levada.client.consumer import arrow_poll
from levada.client.consumer.arrow_poll import check_arrow, take_arrow
from levada.client.consumer.fetcher import Batches, Fetcher
from levada.client.errors import CorruptRecord
from levada.client.types import TopicPartition
from levada.records import BatchView, Codec, arrow, build_batch, compression

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


def batch(base_offset: int, count: int, value: bytes = b"v", codec: Codec = Codec.NONE) -> BatchView:
    return BatchView(build_batch([(0, None, value, ()) for _ in range(count)], base_offset=base_offset, codec=codec))


class Queue:
    """A fetcher with these batches."""

    def __init__(self, **batches: list[BatchView]) -> None:
        self.left = {TopicPartition("t", int(name[1:])): found for name, found in batches.items()}

    def peek_batches(self) -> list[Batches]:
        return [Batches(at, found[0].base_offset, list(found)) for at, found in self.left.items() if found]

    def skip_batches(self, peeked: list[Batches]) -> None:
        for each in peeked:
            del self.left[each.partition][: len(each.batches)]


def take(queue: Queue) -> Any:
    return take_arrow(cast(Fetcher, queue))


def test_all_that_is_there_comes_at_once() -> None:
    queue = Queue(p0=[batch(0, 3), batch(3, 2)], p1=[batch(7, 1)])
    found = take(queue)
    assert found.column("offset").to_pylist() == [0, 1, 2, 3, 4, 7]
    assert found.column("partition").to_pylist() == [0, 0, 0, 0, 0, 1]
    assert take(queue) is None


def test_more_than_is_wise_comes_in_several_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    one = batch(0, 3)
    monkeypatch.setattr(arrow_poll, "MAX_BYTES", 2 * one.size)
    queue = Queue(p0=[one, batch(3, 3), batch(6, 3)], p1=[batch(0, 3)])
    assert [take(queue).num_rows for _ in range(2)] == [6, 6]
    monkeypatch.setattr(arrow_poll, "MAX_BYTES", 1)
    # One batch comes in any case.
    queue = Queue(p0=[one, batch(3, 3)])
    assert [take(queue).num_rows for _ in range(2)] == [3, 3]


def test_no_more_batches_come_than_have_the_rows_that_are_wanted() -> None:
    queue = Queue(p0=[batch(0, 3), batch(3, 3), batch(6, 3)], p1=[batch(0, 3)])
    limited = [take_arrow(cast(Fetcher, queue), 7) for _ in range(2)]
    assert [found.num_rows for found in limited if found is not None] == [6, 6]
    # One batch comes in any case.
    found = take_arrow(cast(Fetcher, Queue(p0=[batch(0, 3), batch(3, 3)])), 1)
    assert found is not None
    assert found.num_rows == 3


def test_what_grows_beyond_the_bound_comes_in_several_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    bound_by(monkeypatch, 250_000)
    queue = Queue(p0=[batch(offset, 1, bytes(100_000), Codec.ZSTD) for offset in range(8)])
    rows = []
    while (found := take(queue)) is not None:
        rows.append(found.num_rows)
    assert sum(rows) == 8
    assert max(rows) == 2


def test_a_batch_that_grows_beyond_the_bound_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    bound_by(monkeypatch, 1_000)
    with pytest.raises(CorruptRecord, match="offset 5 of t-1"):
        take(Queue(p1=[batch(5, 1, bytes(100_000), Codec.ZSTD)]))


def bound_by(monkeypatch: pytest.MonkeyPatch, max_size: int) -> None:
    decode = arrow.decode_arrow_partitions
    monkeypatch.setattr(arrow, "decode_arrow_partitions", lambda partitions: decode(partitions, max_size))


def test_no_column_outgrows_arrow() -> None:
    assert compression.MAX_DECOMPRESSED_BYTES < 2**31


def test_the_batch_that_cannot_be_decoded_is_named() -> None:
    damaged = bytearray(memoryview(batch(3, 3).buffer))
    damaged[61] = 0x7F
    queue = Queue(p0=[batch(0, 3)], p1=[BatchView(bytes(damaged))])
    with pytest.raises(CorruptRecord, match="offset 3 of t-1"):
        take(queue)
    assert len(queue.left[ZERO]) == 1


def test_without_pyarrow_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "pyarrow":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"levada\[arrow\]"):
        check_arrow()
