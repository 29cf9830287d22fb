"""The event loops that a node may run on."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


def run_on(name: str, main: Coroutine[Any, Any, T], timeout_s: float = 30) -> T:
    with asyncio.Runner(loop_factory=LOOPS[name]) as runner:
        return runner.run(asyncio.wait_for(main, timeout_s))
