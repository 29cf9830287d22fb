"""An event loop in a thread of its own, and the way for other threads to have work done there and wait for it."""

import asyncio
import atexit
import contextvars
import os
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeAlias, TypeVar

from levada.client.errors import IllegalState
from levada.world.real import new_loop

T = TypeVar("T")

Farewell: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
"""The last that a loop runs."""

STOP_SECONDS = 5.0
"""How long the end of the process waits for clients that were not closed, all together."""
INTERRUPT_SECONDS = 0.5
"""How long a Ctrl-C may go unnoticed."""
FORKED = "this client was made before a fork and belongs to the other process: make a new one here"
CLOSED = "the client is closed"
CLOSED_MEANWHILE = "the client was closed while this call waited"
OWN_THREAD = "a callback runs on the client's own thread and must not wait for the client: do it elsewhere"

_portals: "weakref.WeakSet[Portal]" = weakref.WeakSet()


def ignore(*_: object) -> None:
    pass


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
        self.task.add_done_callback(lambda _: self.release())

    def abandon(self, give_back: Callable[[T], object]) -> None:
        """On the loop; the caller was interrupted and does not wait any more."""
        task, self.task = self.task, None
        if task is None:
            return
        task.cancel()
        task.add_done_callback(_look)
        if task.done() and not task.cancelled() and task.exception() is None:
            give_back(task.result())

    def release(self) -> None:
        """Let the thread that waits go."""
        self.wishes.put(None)

    def wait(self) -> T:
        """In the caller's thread."""
        while (wish := self._next_wish()) is not None:
            wish()
        task = self.task
        if task is None or not task.done() or task.cancelled():
            raise IllegalState(CLOSED_MEANWHILE)
        # The task's context knows this call: uncut, a large result would stay until the garbage collector comes.
        self.task = None
        return task.result()

    def _next_wish(self) -> Callable[[], None] | None:
        while True:
            try:
                # Not for ever: a Ctrl-C that comes just before the wait is only noticed after it.
                return self.wishes.get(timeout=INTERRUPT_SECONDS)
            except Empty:
                continue


_current: "contextvars.ContextVar[_Call[Any]]" = contextvars.ContextVar("levada blocking call")


class Portal:
    """One client's loop and thread. A fork has neither: a client made before it says so when used."""

    def __init__(self, name: str) -> None:
        self.farewell: Farewell = _nothing
        """What is left to do for a client that is dropped without a close."""
        self.on_fork: Callable[[str], object] = ignore
        """Tells the client, in the other process, why it cannot be used there."""
        self._loop = new_loop()
        # Again by the same thread when the garbage collector ends a client wherever it happens to run.
        self._lock = threading.RLock()
        self._calls: set[_Call[Any]] = set()
        self._is_open = True
        self.is_forked = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        _portals.add(self)

    @property
    def is_own_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def call(self, work: Coroutine[Any, Any, T], give_back: Callable[[T], object] = ignore) -> T:
        """Run a coroutine on the loop and wait for its result; an interrupt cancels it.

        If it comes too late for that, `give_back` gets on the loop what will not reach the caller.
        """
        call = _Call(work)
        if not self._begin(call):
            work.close()
            raise IllegalState(FORKED if self.is_forked else OWN_THREAD if self._is_open else CLOSED)
        try:
            return call.wait()
        except BaseException:
            self.post(partial(call.abandon, give_back))
            raise
        finally:
            self._calls.discard(call)

    def post(self, callback: Callable[[], object]) -> None:
        """Have the loop run something soon, as long as it runs: a farewell needs that too."""
        if self.is_forked:
            return
        with self._lock:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(callback)

    def stop(self, farewell: Farewell) -> None:
        """Run a last coroutine and end the thread; without waiting for that."""
        if self.is_forked:
            return
        with self._lock:
            if self._is_open:
                self._is_open = False
                self._loop.call_soon_threadsafe(self._start_end, farewell)

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended, if that is possible from here."""
        if not self.is_forked and not self.is_own_thread:
            self._thread.join(max(seconds, 0))

    def may_be_closed_here(self) -> bool:
        """Not in a fork, where there is nothing to close; a callback of the client's own thread is told off."""
        if self.is_own_thread and not self.is_forked:
            raise IllegalState(OWN_THREAD)
        return not self.is_forked

    def forked(self) -> None:
        """In the other process. Locks may be held for ever by threads that do not exist here."""
        self.is_forked = True
        self.on_fork(FORKED)

    def _begin(self, call: _Call[Any]) -> bool:
        if self.is_forked or self.is_own_thread:
            return False
        with self._lock:
            if self._is_open:
                self._calls.add(call)
                self._loop.call_soon_threadsafe(call.start)
            return self._is_open

    def _start_end(self, farewell: Farewell) -> None:
        self._end = asyncio.get_running_loop().create_task(farewell())
        self._end.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        # Whatever it was, the client's user is gone and cannot be told.
        _look(task)
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
            with self._lock:
                self._is_open = False
                self._loop.close()
            self.farewell, self.on_fork = _nothing, ignore
            for call in list(self._calls):
                call.release()


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
        try:
            loop.call_soon_threadsafe(settle, value, error)
        except RuntimeError:
            # The client was closed meanwhile, and its loop with it.
            return

    call.wishes.put(run)
    result = await outcome
    return await result if isinstance(result, Awaitable) else result


async def _nothing() -> None:
    pass


def _look(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled():
        task.exception()


def _forked() -> None:
    for portal in list(_portals):
        portal.forked()


def _at_exit() -> None:
    """The process ends: what was not closed is, all at once and within a bound."""
    give_up_at = time.monotonic() + STOP_SECONDS
    portals = list(_portals)
    for portal in portals:
        portal.stop(portal.farewell)
    for portal in portals:
        portal.join(give_up_at - time.monotonic())


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
