"""Background tasks are seen when they fail."""

import asyncio
from typing import Any

import pytest

from levada.world.background import cancel_and_wait, start


async def fail() -> None:
    raise RuntimeError("a fault of our own")


def test_a_task_that_fails_is_told_to_the_exception_handler_and_to_the_node() -> None:
    async def main() -> tuple[list[dict[str, Any]], list[str]]:
        contexts: list[dict[str, Any]] = []
        reasons: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: contexts.append(context))
        tasks = [start("upkeep", fail(), reasons.append), start("removal", fail())]
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)
        return contexts, reasons

    contexts, reasons = asyncio.run(main())
    assert [context["message"] for context in contexts] == [
        "background task failed name='upkeep'",
        "background task failed name='removal'",
    ]
    assert reasons == ["its upkeep failed: RuntimeError('a fault of our own')"]


def test_tasks_that_are_cancelled_or_come_to_their_end_are_no_failure() -> None:
    async def main() -> list[str]:
        seen: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context["message"]))
        done = start("removal", asyncio.sleep(0), seen.append)
        endless = start("heartbeat", asyncio.sleep(3_600), seen.append)
        await done
        await cancel_and_wait(done, None, endless)
        return seen

    assert asyncio.run(main()) == []


def test_a_task_that_failed_does_not_keep_its_owner_from_ending_the_others() -> None:
    async def main() -> bool:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        failed, endless = start("upkeep", fail()), start("heartbeat", asyncio.sleep(3_600))
        await asyncio.sleep(0)
        await cancel_and_wait(failed, endless)
        return endless.cancelled()

    assert asyncio.run(main())


def test_a_caller_that_is_cancelled_while_it_waits_hears_of_it() -> None:
    async def stubborn() -> None:
        try:
            await asyncio.sleep(3_600)
        finally:
            await asyncio.sleep(0.01)

    async def main() -> None:
        task = start("cleaning", stubborn())
        await asyncio.sleep(0)
        waiting = asyncio.get_running_loop().create_task(cancel_and_wait(task))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await cancel_and_wait(task)

    asyncio.run(main())


def test_a_caller_that_cleans_up_after_it_was_cancelled_ends_all_its_tasks() -> None:
    async def main() -> list[bool]:
        tasks = [start(name, asyncio.sleep(3_600)) for name in ("heartbeat", "upkeep")]
        ended: list[bool] = []

        async def owner() -> None:
            try:
                await asyncio.sleep(3_600)
            finally:
                await cancel_and_wait(*tasks)
                ended.extend(task.cancelled() for task in tasks)

        owning = asyncio.get_running_loop().create_task(owner())
        await asyncio.sleep(0)
        owning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await owning
        return ended

    assert asyncio.run(main()) == [True, True]
