"""asyncio's handles, futures and tasks with a mark of the simulated process they belong to."""

import asyncio
import warnings
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextvars import Context
from typing import Any, Final, TypeVar

from levada.sim.world.incarnation import CURRENT, Incarnation

T = TypeVar("T")
AWAITS_IN_FINALLY: Final = 100


class _Owned:
    """Something that belongs to an incarnation, or to the test itself."""

    __slots__ = ()
    incarnation: Incarnation | None

    def is_dead(self) -> bool:
        return self.incarnation is not None and not self.incarnation.alive


class SimHandle(_Owned, asyncio.Handle):
    __slots__ = ("incarnation",)

    def __init__(
        self, callback: Callable[..., object], args: Sequence[Any], loop: asyncio.AbstractEventLoop, context: Context
    ) -> None:
        super().__init__(callback, args, loop, context)
        self.incarnation = context.get(CURRENT)


class SimTimerHandle(_Owned, asyncio.TimerHandle):
    __slots__ = ("incarnation",)

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: Sequence[Any],
        loop: asyncio.AbstractEventLoop,
        context: Context,
    ) -> None:
        super().__init__(when, callback, args, loop, context)
        self.incarnation = context.get(CURRENT)


class SimFuture(_Owned, asyncio.Future[Any]):
    def __init__(self, *, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self.incarnation = CURRENT.get()


class SimTask(_Owned, asyncio.Task[T]):
    def __init__(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        loop: asyncio.AbstractEventLoop,
        name: str | None,
        context: Context,
    ) -> None:
        self.sim_context = context
        self.incarnation = context.get(CURRENT)
        super().__init__(coro, loop=loop, name=name, context=context)

    def failed_unseen(self) -> bool:
        # asyncio's own mark for "exception was never retrieved", which it reports only when the task is freed.
        return self.done() and not self.cancelled() and bool(getattr(self, "_log_traceback", False))


def bury(task: SimTask[Any]) -> None:
    """End a task's coroutine without a word: the doors of its `finally` blocks are shut, and no warning follows."""
    if task.done():
        if not task.cancelled():
            task.exception()
        return
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    coroutine = task.get_coro()
    assert coroutine is not None
    with warnings.catch_warnings():
        # One that never ran may have been given another to await.
        warnings.simplefilter("ignore", RuntimeWarning)
        for _ in range(AWAITS_IN_FINALLY):
            try:
                task.sim_context.run(coroutine.close)
            except BaseException:
                # An await inside `finally`, or a door that refuses: close again from there.
                continue
            return
