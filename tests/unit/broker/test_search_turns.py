"""Turns of searches by time: one at a time, and none is lost with a request that ends early."""

import asyncio
from collections.abc import Callable
from typing import Any

from levada.broker.search_turns import SearchTurns
from levada.world.real import RealClock


class HeldWorkers:
    """Calls are made when they are let go."""

    def __init__(self) -> None:
        self.waiting: list[asyncio.Future[None]] = []

    async def run(self, task: str, argument: bytes) -> bytes:
        raise NotImplementedError

    async def compute(self, call: Callable[[], Any]) -> Any:
        self.waiting.append(asyncio.get_running_loop().create_future())
        await self.waiting[-1]
        return call()

    async def close(self) -> None: ...


async def rounds(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_search_that_is_cancelled_while_it_waits_leaves_its_turn_to_the_next() -> None:
    async def main() -> None:
        turns = SearchTurns(RealClock(), HeldWorkers())

        async def search() -> str:
            async with turns:
                return "found"

        first, second, third = (asyncio.ensure_future(search()) for _ in range(3))
        # The first pauses before its turn, the others wait for it.
        await rounds(1)
        first.cancel()
        second.cancel()
        assert await asyncio.wait_for(third, 10) == "found"

    asyncio.run(main())


def test_other_searches_go_on_while_one_has_a_batch_opened() -> None:
    async def main() -> None:
        workers = HeldWorkers()
        turns = SearchTurns(RealClock(), workers)
        opening = [asyncio.ensure_future(turns.compute(lambda: "opened")) for _ in range(3)]
        await rounds(2)
        assert len(workers.waiting) == 1
        async with turns:
            pass
        opening[0].cancel()
        await rounds(3)
        # The place of a request that has ended is taken by the next.
        assert len(workers.waiting) == 2
        workers.waiting[1].set_result(None)
        assert await asyncio.wait_for(opening[1], 10) == "opened"
        opening[2].cancel()

    asyncio.run(main())
