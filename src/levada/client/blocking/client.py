"""A client of asyncio's behind blocking calls: its loop runs in a thread of its own."""

import weakref
from collections.abc import Callable, Coroutine
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeAlias, TypeVar

from levada.client.arguments import check_timeout
from levada.client.blocking.portal import STOP_SECONDS, Portal, ignore

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C")
A = TypeVar("A")

FAREWELL_SECONDS = 4.0
"""How long a client that was not closed may take for what is under way: less than the end of the process waits."""

Close: TypeAlias = Callable[..., Coroutine[Any, Any, None]]
"""Ends a client; takes it, and perhaps how many seconds that may take."""


class BlockingClient(Generic[C]):
    """Closed by `close`, at the end of its `with` block, when it is garbage, or when the process ends."""

    def __init__(self, name: str, make: Callable[[Portal], C], close: Close) -> None:
        portal = self._portal = Portal(f"levada-{name}")
        self._close = close
        try:
            client = self._client = portal.call(_made(make, portal))
        except BaseException:
            portal.stop(_nothing)
            portal.join(STOP_SECONDS)
            raise
        portal.farewell = lambda: close(client, FAREWELL_SECONDS)
        portal.on_fork = getattr(client, "forked", portal.on_fork)
        self._finalizer = weakref.finalize(self, _abandon, portal)
        # At the end of the process the portal itself sees to it.
        self._finalizer.atexit = False

    def close(self, timeout: float | None = None) -> None:
        """End what is under way, waiting up to `timeout` seconds, and hang up."""
        if timeout is not None:
            check_timeout(timeout)
        if not self._portal.may_be_closed_here():
            return
        if self._finalizer.detach() is not None:
            limits = () if timeout is None else (timeout,)
            try:
                self._portal.call(self._close(self._client, *limits))
            finally:
                self._portal.stop(_nothing)
                self._portal.join(STOP_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # A user who interrupts wants to go now, not when a broker that is down has had all its time.
        is_interrupted = kind is not None and not issubclass(kind, Exception)
        self.close(FAREWELL_SECONDS if is_interrupted else None)


def blocking(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]], give_back: Callable[[Any, T], object] = ignore
) -> Callable[Concatenate[BlockingClient[Any], P], T]:
    """The method that runs a coroutine of the client to its end; `give_back(client, result)` if nothing came of it."""

    @wraps(method)
    def call(self: BlockingClient[Any], /, *arguments: P.args, **named: P.kwargs) -> T:
        client = self._client
        return self._portal.call(method(client, *arguments, **named), partial(give_back, client))

    return call


def at_once(method: Callable[Concatenate[A, P], T]) -> Callable[Concatenate[BlockingClient[Any], P], T]:
    """The method that has the client's thread run a plain method of the client."""

    async def run(client: A, /, *arguments: P.args, **named: P.kwargs) -> T:
        return method(client, *arguments, **named)

    @wraps(method)
    def call(self: BlockingClient[Any], /, *arguments: P.args, **named: P.kwargs) -> T:
        return self._portal.call(run(self._client, *arguments, **named))

    return call


async def _made(make: Callable[[Portal], C], portal: Portal) -> C:
    """On the loop, where its events and tasks belong."""
    return make(portal)


async def _nothing() -> None:
    pass


def _abandon(portal: Portal) -> None:
    """The client was dropped without a close; the thread that collects it does not wait for its end."""
    portal.stop(portal.farewell)
