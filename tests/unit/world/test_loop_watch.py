"""A turn of the loop that takes too long is told, with its place in the code."""

import asyncio
import logging
import time

import pytest

from levada.world.loop_watch import LoopWatch


def hold(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


async def live(limit_ms: int, held_seconds: float) -> None:
    watch = LoopWatch(limit_ms)
    watch.start()
    await asyncio.sleep(0)
    hold(held_seconds)
    await asyncio.sleep(0.02)
    watch.stop()


def test_it_says_how_long_the_loop_was_held_and_where(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        asyncio.run(live(20, 0.5))
    assert "event loop held ms=" in caplog.messages[0]
    assert ".hold:" in caplog.messages[0]


def test_with_a_limit_of_0_nothing_is_watched(caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(live(0, 0.1))
    assert caplog.messages == []
