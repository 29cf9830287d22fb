"""Offsets by time: exact, and without holding the loop for batches that open to very much."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from levada.broker.search_turns import LONGEST_TURN_NS, SearchTurns
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from levada.records import BatchView, Codec, build_batch
from levada.storage import lookups, validation
from levada.storage.log import Log
from levada.storage.lookups import Search, first_since
from tests.logs import T0
from tests.nodes import RunningNode, running_node
from tests.rounds import Rounds

PATIENCE_SECONDS = 60


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, PATIENCE_SECONDS))


def request(timestamp: int, partitions: int = 1) -> ListOffsetsRequest:
    asked = [ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in range(partitions)]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=asked)])


async def find(node: RunningNode, timestamp: int) -> tuple[int, int, int]:
    """Error code, timestamp and offset."""
    (one,) = (await node.call(request(timestamp))).topics[0].partitions
    return one.error_code, one.timestamp, one.offset


def append(node: RunningNode, batch: bytes) -> None:
    node.broker.partition("t", bytes(16), 0).append(batch, allows_zstd=True, now_ms=T0)


def bomb(megabytes: int, first_ms: int, last_ms: int) -> bytes:
    """Little to send, much to open: the last record has another time than those before it."""
    records = [(first_ms, None, bytes(1 << 20), ()) for _ in range(megabytes)]
    return build_batch([*records, (last_ms, None, b"last", ())], codec=Codec.ZSTD)


def test_a_record_in_a_batch_that_opens_to_much_is_found_and_others_are_served_meanwhile(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            await node.create("t")
            append(node, bomb(40, T0, T0 + 5))
            append(node, build_batch([(T0 + 3, None, b"later", ())]))
            calls = []
            compute = node.broker.workers.compute
            node.broker.workers.compute = lambda call: (calls.append(call), compute(call))[1]  # type: ignore
            assert await find(node, T0 + 5) == (0, T0 + 5, 40)
            assert await find(node, T0 + 6) == (0, -1, -1)
            assert await find(node, T0) == (0, T0, 0)
            # The newest record.
            assert await find(node, -3) == (0, T0 + 5, 40)
            assert len(calls) == 3

    run(main())


def test_what_opens_to_more_than_any_search_may_open_is_an_error_and_not_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "MAX_OPENED", 2 << 20)

    async def main() -> None:
        async with running_node(tmp_path) as node:
            await node.create("t")
            append(node, bomb(3, T0, T0 + 5))
            assert await find(node, T0 + 5) == (ErrorCode.KAFKA_STORAGE_ERROR, -1, -1)
            assert await find(node, -1) == (0, -1, 4)

    run(main())


def test_a_record_in_any_batch_that_was_opened_and_accepted_is_found(tmp_path: Path) -> None:
    async def main() -> None:
        most = 80 << 20
        async with running_node(tmp_path, {"log.cleanup.policy": "compact", "message.max.bytes": str(most)}) as node:
            await node.create("t")
            records = [(T0, b"key", bytes(1 << 20), ()) for _ in range(70)]
            batch = build_batch([*records, (T0 + 5, b"key", b"last", ())], codec=Codec.ZSTD)
            partition = node.broker.partition("t", bytes(16), 0)
            partition.append(batch, allows_zstd=True, now_ms=T0, max_opened=most)
            assert await find(node, T0 + 5) == (0, T0 + 5, 70)

    run(main())


def lying(max_timestamp: int) -> bytes:
    """A compressed batch whose header claims a time that no record has: it is not opened when it is produced."""
    return build_batch([(T0, None, bytes(1 << 20), ())] * 2, codec=Codec.ZSTD, max_timestamp=max_timestamp)


def test_a_search_gives_up_on_headers_that_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "MAX_LARGE_BATCHES", 2)

    async def main() -> None:
        async with running_node(tmp_path) as node:
            await node.create("t")
            for _ in range(2):
                append(node, lying(T0 + 5))
            append(node, build_batch([(T0 + 5, None, b"true", ())]))
            assert await find(node, T0 + 5) == (0, T0 + 5, 4)
            append(node, lying(T0 + 9))
            append(node, lying(T0 + 9))
            assert BatchView(lying(T0 + 9)).max_timestamp == T0 + 9
            assert (await find(node, T0 + 9))[0] == 0
            append(node, lying(T0 + 9))
            assert (await find(node, T0 + 9))[0] == ErrorCode.KAFKA_STORAGE_ERROR

    run(main())


def test_a_search_through_very_many_batches_lets_others_have_their_turn(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            await node.create("t")
            log = node.broker.partition("t", bytes(16), 0).log
            # Times that go back leave nothing in the time index to begin from.
            for number in range(2_000):
                append(node, build_batch([(T0 - number, None, b"", ())]))
            append(node, build_batch([(T0 + 1, None, b"", ())]))
            pauses = sum(1 for _ in log.search_since(T0 + 1))
            assert pauses >= 3
            assert await find(node, T0 + 1) == (0, T0 + 1, 2_000)

    run(main())


class SteppingClock:
    """Goes on by a millisecond whenever it is looked at."""

    def __init__(self) -> None:
        self._now_ns = 0

    def now_ms(self) -> int:
        return T0

    def monotonic_ms(self) -> int:
        return T0

    def perf_ns(self) -> int:
        self._now_ns += 1_000_000
        return self._now_ns


MOST_STEPS = LONGEST_TURN_NS // 1_000_000 + 1


def watch_steps(node: RunningNode, monkeypatch: pytest.MonkeyPatch) -> Rounds:
    """Every step of a search takes a millisecond, and is noted."""
    rounds = Rounds()
    node.broker.clock = SteppingClock()
    node.broker.search_turns = SearchTurns(node.broker.clock, node.broker.workers)

    def noted(log: Log, timestamp_ms: int) -> Search:
        rounds.note()
        steps = first_since(log, timestamp_ms)
        while True:
            try:
                call = next(steps)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            assert call is None
            yield None
            rounds.note()

    monkeypatch.setattr(Log, "search_since", noted)
    return rounds


@pytest.mark.parametrize("requests", [1, 20], ids=["one request", "many requests"])
def test_searches_in_many_partitions_let_others_have_their_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requests: int
) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            await node.create("t", 100)
            rounds = watch_steps(node, monkeypatch)
            partitions = 100 // requests
            answers = [node.channel.send(request(T0, partitions), 8) for _ in range(requests)]
            for each in answers:
                assert [one.error_code for one in (await each).topics[0].partitions] == [0] * partitions
            assert rounds.stop() <= MOST_STEPS
            assert rounds.events.total() == 100

    run(main())


def test_a_search_in_many_batches_lets_others_have_their_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            await node.create("t")
            for _ in range(50):
                # Not opened when it is produced, so that its header can claim a time that no record has.
                append(node, build_batch([(T0, None, b"", ())], codec=Codec.ZSTD, max_timestamp=T0 + 5))
            rounds = watch_steps(node, monkeypatch)
            assert await find(node, T0 + 1) == (0, -1, -1)
            assert rounds.stop() <= MOST_STEPS
            assert rounds.events.total() > 50

    run(main())


def test_a_producer_whose_batch_must_be_opened_waits_for_one_search_at_most(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            await node.create("t")
            append(node, bomb(2, T0, T0 + 5))
            waiting = most = 0
            compute = node.broker.workers.compute

            async def noted(call: Any) -> Any:
                nonlocal waiting, most
                waiting += 1
                most = max(most, waiting)
                try:
                    return await compute(call)
                finally:
                    waiting -= 1

            node.broker.workers.compute = noted  # type: ignore[method-assign]
            answers = [node.channel.send(request(T0 + 5), 8) for _ in range(10)]
            for each in answers:
                assert (await each).topics[0].partitions[0].offset == 2
            assert most == 1

    run(main())
