"""An event loop in a thread of its own, and the way for other threads to have work done there and wait for it."""

import asyncio
import contextvars
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from penstock.client.errors import IllegalState
from penstock.world.real import new_loop

T = TypeVar("T")

STOP_SECONDS = 5.0
"""How long the end of the process waits for a client that was not closed."""

_portals: "weakref.WeakSet[Portal]" = weakref.WeakSet()


class _Call(Generic[T]):
    """A coroutine on the loop, and the thread that waits for it: in between it may be asked to run something itself."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self.work = work
        self.task: asyncio.Task[T] | None = None
        self.wishes: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def start(self) -> None:
        """On the loop."""
        context = contextvars.copy_context()
        context.run(_current.set, self)
        self.task = asyncio.get_running_loop().create_task(self.work, context=context)
        self.task.add_done_callback(lambda _: self.wishes.put(None))

    def cancel(self) -> None:
        """On the loop."""
        if self.task is not None:
            self.task.cancel()

    def wait(self) -> T:
        """In the caller's thread."""
        while (wish := self.wishes.get()) is not None:
            wish()
        assert self.task is not None
        return self.task.result()


_current: "contextvars.ContextVar[_Call[Any]]" = contextvars.ContextVar("penstock blocking call")


class Portal:
    """One client's loop and thread. A fork has neither: a client made before it says so when used."""

    def __init__(self, name: str) -> None:
        self._loop = new_loop()
        self._is_open = True
        self._is_forked = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        _portals.add(self)

    @property
    def is_own_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for its result; an interrupt cancels it."""
        if not self._is_open or self._is_forked or self.is_own_thread:
            work.close()
            raise IllegalState(self._why_not())
        call = _Call(work)
        self._loop.call_soon_threadsafe(call.start)
        try:
            return call.wait()
        except BaseException:
            if call.task is None or not call.task.done():
                self.post(call.cancel)
            raise

    def post(self, callback: Callable[[], object]) -> None:
        """Have the loop run something soon."""
        if self._is_open and not self._is_forked:
            self._loop.call_soon_threadsafe(callback)

    def stop(self, farewell: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a last coroutine and end the thread; waits for a while, if that is possible from here."""
        if not self._is_open or self._is_forked:
            return
        self._is_open = False
        self._loop.call_soon_threadsafe(self._start_end, farewell)
        if not self.is_own_thread:
            self._thread.join(STOP_SECONDS)

    def _start_end(self, farewell: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._end = asyncio.get_running_loop().create_task(farewell())
        self._end.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled():
            # Whatever it was, there is nobody left to tell.
            task.exception()
        self._loop.stop()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            if left:
                self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    def _why_not(self) -> str:
        if self._is_forked:
            return "this client was made before a fork and belongs to the other process: make a new one here"
        if not self._is_open:
            return "the client is closed"
        return "a callback runs on the client's own thread and must not wait for the client: do it elsewhere"


async def in_callers_thread(work: Callable[[], Any]) -> Any:
    """Have the thread that made the blocking call run something of the user's: it may use the client in turn."""
    call = _current.get()
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if outcome.done():
            return
        if error is None:
            outcome.set_result(value)
        else:
            outcome.set_exception(error)

    def run() -> None:
        try:
            value, error = work(), None
        except Exception as raised:
            value, error = None, raised
        loop.call_soon_threadsafe(settle, value, error)

    call.wishes.put(run)
    result = await outcome
    return await result if isinstance(result, Awaitable) else result


def _forked() -> None:
    for portal in list(_portals):
        portal._is_forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
