"""A client of asyncio's behind blocking calls: its loop runs in a thread of its own."""

import weakref
from collections.abc import Callable, Coroutine
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeAlias, TypeVar

from penstock.client.blocking.portal import STOP_SECONDS, Portal

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C")
A = TypeVar("A")

Close: TypeAlias = Callable[..., Coroutine[Any, Any, None]]
"""Ends a client; takes it, and perhaps how many seconds that may take."""


class BlockingClient(Generic[C]):
    """Closed by `close`, at the end of its `with` block, when nobody has it any more, or when the process ends."""

    def __init__(self, name: str, make: Callable[[Portal], C], close: Close) -> None:
        self._portal = Portal(f"penstock-{name}")
        self._close = close
        try:
            self._client = self._portal.call(_made(make, self._portal))
        except BaseException:
            self._portal.stop(_nothing)
            raise
        self._finalizer = weakref.finalize(self, _abandon, self._portal, self._client, close)

    def close(self, timeout: float | None = None) -> None:
        """End what is under way, waiting up to `timeout` seconds, and hang up."""
        if self._finalizer.detach() is not None:
            limits = () if timeout is None else (timeout,)
            try:
                self._portal.call(self._close(self._client, *limits))
            finally:
                self._portal.stop(_nothing)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def blocking(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[BlockingClient[Any], P], T]:
    """The method that runs a coroutine of the client to its end."""

    @wraps(method)
    def call(self: BlockingClient[Any], /, *arguments: P.args, **named: P.kwargs) -> T:
        return self._portal.call(method(self._client, *arguments, **named))

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


def _abandon(portal: Portal, client: Any, close: Close) -> None:
    """Nobody has closed the client, and nobody can any more."""
    portal.stop(lambda: close(client, STOP_SECONDS))
