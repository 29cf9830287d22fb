"""Tasks that go on between two polls, and what they hand over to the next one."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from levada.client.cluster import Deadline, background

LONGEST_WAIT_S = 365 * 24 * 3600.0


def spawn(coroutine: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
    """A task whose failure asyncio need not report: a later poll takes it, if there is one."""
    task = background(coroutine)
    task.add_done_callback(_look)
    return task


async def stop(task: "asyncio.Task[None] | None") -> None:
    """End a task wherever it is."""
    if task is None or task.done():
        return
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        if not task.cancelled():
            # It was not the task that was cancelled but the caller that waits for it.
            raise
    except Exception:
        # What it died of does not matter any more.
        return


async def happens(event: asyncio.Event, wait_ms: float) -> bool:
    """Whether an event comes within a time; it is cleared for the next."""
    try:
        async with asyncio.timeout(min(wait_ms / 1_000, LONGEST_WAIT_S)):
            await event.wait()
    except TimeoutError:
        return False
    event.clear()
    return True


class InPoll:
    """Where a background task has things done inside the user's poll: listeners told, assignments changed."""

    def __init__(self) -> None:
        self.on_wanted: Callable[[], None] = lambda: None
        """Called when something waits for a poll."""
        self._wake = asyncio.Event()
        self._call: Callable[[], Awaitable[None]] | None = None
        self._done: asyncio.Future[None] | None = None

    async def run(self, call: Callable[[], Awaitable[None]]) -> None:
        """From the task: wait until a poll has made this call; what the call raises the poll raises."""
        assert self._call is None
        self._call = call
        self._done = asyncio.get_running_loop().create_future()
        self._wake.set()
        self.on_wanted()
        try:
            await self._done
        finally:
            self._call = self._done = None

    def start(self, coroutine: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Begin a task that uses `run`; one at a time."""
        task = spawn(coroutine)
        task.add_done_callback(self._on_done)
        return task

    async def serve(self, task: "asyncio.Task[None]", patience_ms: Callable[[], float]) -> bool:
        """From a poll: make the task's calls until it is done, or until there is no more patience; is it done?"""
        while True:
            if self._call is not None and self._done is not None and not self._done.done():
                await self._make_call()
            if task.done():
                return True
            if not await happens(self._wake, patience_ms()) and self._call is None and not task.done():
                return False

    async def _make_call(self) -> None:
        call, done = self._call, self._done
        assert call is not None
        assert done is not None
        try:
            await call()
        finally:
            # Whatever the user's code raises, the group goes on.
            if not done.done():
                done.set_result(None)

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        self._wake.set()
        self.on_wanted()


def patience(deadline: Deadline, is_busy: Callable[[], bool]) -> Callable[[], float]:
    """How long a poll waits for the group: not at all while there are records to be had."""
    return lambda: 0.0 if is_busy() else deadline.remaining_ms()


def _look(task: "asyncio.Task[None]") -> None:
    if not task.cancelled():
        task.exception()
