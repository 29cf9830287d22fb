"""With one request in flight per connection the order holds without sequences, even while the leader moves."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from levada.model.error_codes import ErrorCode
from tests.unit.client.producer.bench import LEADER, Asked, Bench

PLAIN: dict[str, Any] = {"enable_idempotence": False, "max_in_flight_requests_per_connection": 1, "retries": 5}

Ending = Callable[[Asked], None]

ENDINGS: dict[str, Ending] = {
    "refused": lambda asked: asked.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER),
    "lost": lambda asked: asked.lose(),
}


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await story()

    asyncio.run(main())


def values(asked: Asked) -> list[bytes]:
    """The one-record batches of a request, by the last byte of their value."""
    parts = [part for topic in asked.request.topic_data for part in topic.partition_data]
    return [bytes(part.records or b"")[-2:-1] for part in parts]


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_batch_waits_for_the_one_on_the_wire_though_another_broker_leads_now(ending: str) -> None:
    async def story() -> None:
        bench = Bench(idempotent=False, **PLAIN)
        handles = bench.send(3)
        [first] = bench.node.take()
        assert values(first) == [b"0"]
        bench.cluster.led_by(LEADER + 1)
        bench.sender.pump()
        assert not bench.node.take(), "the second would be in the log before the first is tried again"
        ENDINGS[ending](first)
        await bench.turn()
        assert not bench.node.take(), "after a pause only"
        order = []
        for offset in range(3):
            bench.pass_ms(200)
            [asked] = bench.node.take()
            order += values(asked)
            asked.answer(base_offset=offset)
            await bench.turn()
        assert order == [b"0", b"1", b"2"]
        assert [handle.result(0).offset for handle in handles] == [0, 1, 2]

    run(story)


def test_other_partitions_go_on_meanwhile() -> None:
    async def story() -> None:
        bench = Bench(idempotent=False, partitions=2, **PLAIN)
        bench.send(2, partition=0)
        [first] = bench.node.take()
        bench.cluster.led_by(LEADER + 1)
        bench.send(1, partition=1)
        [other] = bench.node.take()
        assert [index for index, *_ in other.batches] == [1]
        other.answer()
        first.answer()
        await bench.turn()
        assert [[index for index, *_ in asked.batches] for asked in bench.node.take()] == [[0]]

    run(story)


def test_a_batch_that_was_given_up_on_the_wire_holds_up_the_next_until_it_is_answered() -> None:
    async def story() -> None:
        bench = Bench(idempotent=False, delivery_timeout_ms=30_005, request_timeout_ms=30_000, **PLAIN)
        first, second = bench.send(2)
        [asked] = bench.node.take()
        bench.clock.ms += 20_000
        third = bench.send(1)[0]
        bench.cluster.led_by(LEADER + 1)
        bench.pass_ms(10_006)
        assert first.done()
        assert second.done()
        assert not third.done()
        assert not bench.node.take(), "the broker may still be writing the first"
        asked.lose()
        await bench.turn()
        [after] = bench.node.take()
        after.answer(base_offset=7)
        await bench.turn()
        assert third.result(0).offset == 7

    run(story)


def test_more_requests_in_flight_promise_no_order() -> None:
    async def story() -> None:
        bench = Bench(idempotent=False, **{**PLAIN, "max_in_flight_requests_per_connection": 2})
        bench.send(2)
        assert len(bench.node.take()) == 2

    run(story)


def test_without_acknowledgements_nothing_is_waited_for() -> None:
    async def story() -> None:
        bench = Bench(idempotent=False, acks=0, **PLAIN)
        bench.send(3)
        assert [values(asked) for asked in bench.node.take()] == [[b"0"], [b"1"], [b"2"]]

    run(story)
