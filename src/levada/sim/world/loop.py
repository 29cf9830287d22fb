"""An asyncio event loop with virtual time: no waiting, no threads, and the same order of callbacks in every run."""

import asyncio
import contextlib
import gc
import heapq
import math
import sys
import weakref
from asyncio.events import _set_running_loop
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterator
from contextvars import Context, copy_context
from typing import Any, Final, TypeVar, TypeVarTuple

from levada.sim.world.closed_doors import ClosedDoorsLoop
from levada.sim.world.incarnation import HostDied, Incarnation
from levada.sim.world.tasks import SimFuture, SimHandle, SimTask, SimTimerHandle, bury

NANOSECONDS: Final = 1_000_000_000
CALLBACKS_PER_INSTANT: Final = 1_000_000

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class RunFailed(Exception):
    """The simulation ended early."""


class SimDeadlock(RunFailed):
    """Nothing is scheduled any more, and what we wait for has not happened."""


class SimLivelock(RunFailed):
    """Callbacks follow callbacks while time stands still."""


class SimTimeout(RunFailed):
    """The virtual time allowed for the run is over."""


class SimUnhandled(RunFailed):
    """A callback or a task failed unseen."""


class SimLoop(ClosedDoorsLoop):
    """Runs what is ready in FIFO order; when nothing is, jumps to the next timer; equal times in order of scheduling.

    Time is kept in whole nanoseconds, so that it does not depend on the order of float additions.
    """

    def __init__(self) -> None:
        self.now_ns = 0
        self.limit_ns: int | None = None
        self.failures: list[dict[str, Any]] = []
        self._ready: deque[SimHandle | SimTimerHandle] = deque()
        self._timers: list[tuple[int, int, SimTimerHandle]] = []
        self._scheduled = 0
        self._callbacks_this_instant = 0
        # Weak, because a task without a holder must be seen to vanish; by number, because order must not be by id().
        self._tasks: weakref.WeakValueDictionary[int, SimTask[Any]] = weakref.WeakValueDictionary()
        self._tasks_created = 0
        self._graveyard: list[SimTask[Any]] = []
        self._kept: dict[Incarnation, list[SimHandle | SimTimerHandle]] = {}
        self._generators: weakref.WeakValueDictionary[int, AsyncGenerator[Any, Any]] = weakref.WeakValueDictionary()
        self._generators_seen = 0
        self._exception_handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None
        self._running = False
        self._stopping = False
        self._closed = False

    # Running

    def run_until_complete(self, future: Awaitable[T]) -> T:  # type: ignore[override]
        awaited = asyncio.ensure_future(future, loop=self)
        self._run(awaited.done)
        return awaited.result()

    def run_forever(self) -> None:
        self._stopping = False
        self._run(lambda: self._stopping)

    def stop(self) -> None:
        self._stopping = True

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Drop everything scheduled and end all coroutines where they stand, unseen."""
        if self._running:
            raise RuntimeError("Cannot close a running event loop")
        self._closed = True
        for task in [*self._graveyard, *self._tasks.values()]:
            bury(task)
        self._ready.clear()
        self._timers.clear()
        self._kept.clear()
        self._graveyard.clear()

    def kill(self, incarnation: Incarnation) -> None:
        """Nothing of a dead incarnation runs again, not even the `finally` of a coroutine that is dropped."""
        incarnation.alive = False
        self._kept.pop(incarnation, None)
        self._graveyard.extend(task for task in self._tasks.values() if task.incarnation is incarnation)

    def pause(self, incarnation: Incarnation) -> None:
        """Nothing of it runs until it is resumed; what comes due meanwhile runs then, in the order of its time."""
        incarnation.paused = True
        self._kept[incarnation] = []

    def resume(self, incarnation: Incarnation) -> None:
        incarnation.paused = False
        self._ready.extend(self._kept.pop(incarnation))

    def check_failures(self) -> None:
        """Raise what callbacks and tasks of living processes raised and no caller caught."""
        for task in self._tasks.values():
            if task.failed_unseen() and not task.is_dead():
                self.failures.append({"message": "a task failed, and no caller awaited it", "task": task})
        if not self.failures:
            return
        causes = [_cause(failure) for failure in self.failures]
        lines = [f"{failure['message']}: {cause!r}" for failure, cause in zip(self.failures, causes)]
        self.failures = []
        raise SimUnhandled("\n".join(lines)) from causes[0]

    # Scheduling

    def time(self) -> float:
        return self.now_ns / NANOSECONDS

    def call_soon(self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None) -> SimHandle:
        self._check_open()
        handle = SimHandle(callback, args, self, copy_context() if context is None else context)
        self._ready.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> SimTimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> SimTimerHandle:
        when_ns = math.ceil(when * NANOSECONDS)
        if when_ns / NANOSECONDS < when:
            # A timer must never fire before time() has reached it: loops on "until deadline" would spin.
            when_ns += 1
        return self.call_at_ns(when_ns, callback, *args, context=context)

    def call_at_ns(
        self, when_ns: int, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> SimTimerHandle:
        self._check_open()
        handle = SimTimerHandle(
            when_ns / NANOSECONDS, callback, args, self, copy_context() if context is None else context
        )
        self._scheduled += 1
        heapq.heappush(self._timers, (when_ns, self._scheduled, handle))
        return handle

    def create_future(self) -> SimFuture:
        return SimFuture(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> SimTask[T]:
        self._check_open()
        task = SimTask(coro, loop=self, name=name, context=copy_context() if context is None else context)
        self._tasks_created += 1
        self._tasks[self._tasks_created] = task
        return task

    def get_task_factory(self) -> None:
        return None

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        """Debug mode measures wall time: it stays off."""

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Called by asyncio's handles; a cancelled timer is dropped when its time comes."""

    # Failures

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._closed or isinstance(context.get("exception"), HostDied):
            return
        for key in ("handle", "future", "task"):
            source = context.get(key)
            if isinstance(source, SimHandle | SimTimerHandle | SimFuture | SimTask) and source.is_dead():
                return
        self.failures.append(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def set_exception_handler(
        self, handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None
    ) -> None:
        """Kept but not called: a node that logs and goes on must not hide a failure from the simulation."""
        self._exception_handler = handler

    def get_exception_handler(self) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None:
        return self._exception_handler

    # Ends

    async def shutdown_asyncgens(self) -> None:
        for generator in list(self._generators.values()):
            await generator.aclose()

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There is none."""

    # The inside

    def _run(self, finished: Callable[[], bool]) -> None:
        self._check_open()
        if self._running:
            raise RuntimeError("This event loop is already running")
        with self._as_running_loop(), _collector_off():
            while not finished():
                self._step()
                if self.failures:
                    self.check_failures()

    def _step(self) -> None:
        """Run one callback, or advance time to the next timer."""
        timers, ready = self._timers, self._ready
        while timers and timers[0][0] <= self.now_ns:
            ready.append(heapq.heappop(timers)[2])
        if not ready:
            self._advance()
            return
        handle = ready.popleft()
        if handle.cancelled() or handle.is_dead():
            return
        if handle.incarnation is not None and handle.incarnation.paused:
            self._kept[handle.incarnation].append(handle)
            return
        self._callbacks_this_instant += 1
        if self._callbacks_this_instant > CALLBACKS_PER_INSTANT:
            raise SimLivelock(f"{CALLBACKS_PER_INSTANT} callbacks at {self.time()} s, the last {handle!r}")
        handle._run()

    def _advance(self) -> None:
        timers = self._timers
        while timers and (timers[0][2].cancelled() or timers[0][2].is_dead()):
            heapq.heappop(timers)
        if not timers:
            raise SimDeadlock("nothing is scheduled; pending tasks:\n" + "\n".join(self._pending_tasks()))
        if self.limit_ns is not None and timers[0][0] > self.limit_ns:
            raise SimTimeout(f"not done after {self.time()} s; pending tasks:\n" + "\n".join(self._pending_tasks()))
        self.now_ns = timers[0][0]
        self._callbacks_this_instant = 0

    def _pending_tasks(self) -> list[str]:
        return [repr(task) for task in self._tasks.values() if not task.done() and not task.is_dead()]

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("Event loop is closed")

    @contextlib.contextmanager
    def _as_running_loop(self) -> Iterator[None]:
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=self._generator_started, finalizer=self._generator_dropped)
        _set_running_loop(self)
        self._running = True
        try:
            yield
        finally:
            self._running = False
            _set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)

    def _generator_started(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._generators_seen += 1
        self._generators[self._generators_seen] = generator

    def _generator_dropped(self, generator: AsyncGenerator[Any, Any]) -> None:
        if not self._closed:
            # aclose() is a coroutine in all but its declared type.
            closing: Coroutine[Any, Any, None] = generator.aclose()
            self.call_soon(self.create_task, closing)


@contextlib.contextmanager
def _collector_off() -> Iterator[None]:
    """The collector runs finalizers at moments that depend on the process's past, so it waits for the end."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _cause(failure: dict[str, Any]) -> BaseException | None:
    exception = failure.get("exception")
    task = failure.get("task")
    if exception is None and isinstance(task, SimTask) and task.done() and not task.cancelled():
        exception = task.exception()
    return exception if isinstance(exception, BaseException) else None
