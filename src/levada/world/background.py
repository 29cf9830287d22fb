"""The tasks that a node runs beside its requests: one place starts them, and none of them ends unseen."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

OnFatal: TypeAlias = Callable[[str], None]
"""Told why a node cannot go on."""


def start(name: str, coroutine: Coroutine[Any, Any, T], on_fatal: OnFatal | None = None) -> "asyncio.Task[T]":
    """A task whose failure the loop's exception handler is told of, and the node if it cannot do without the task."""
    task = asyncio.get_running_loop().create_task(coroutine, name=name)

    def look(ended: "asyncio.Task[T]") -> None:
        error = None if ended.cancelled() else ended.exception()
        if error is None:
            return
        context = {"message": f"background task failed name={name!r}", "exception": error, "task": ended}
        ended.get_loop().call_exception_handler(context)
        if on_fatal is not None:
            on_fatal(f"its {name} failed: {error!r}")

    task.add_done_callback(look)
    return task


async def cancel_and_wait(*tasks: "asyncio.Task[Any] | None") -> None:
    """End background tasks; how they end is not for this caller to hear, which has others to end."""
    caller = asyncio.current_task()
    # One that cleans up because it was cancelled is not cancelled again by that.
    cancelled_before = 0 if caller is None else caller.cancelling()
    for task in tasks:
        if task is not None:
            task.cancel()
    for task in tasks:
        if task is None:
            continue
        try:
            await task
        except asyncio.CancelledError:
            if caller is not None and caller.cancelling() > cancelled_before:
                raise
        except Exception:
            continue
