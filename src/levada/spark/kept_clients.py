"""Clients that a Python worker of Spark keeps: to make and connect one takes longer than the rest of a small batch.

A worker has one task or one commit at a time, and a client that it has taken has no other user. What goes wrong with a
client closes it, and the next use makes another one.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, Protocol, TypeVar

MOST_KEPT: Final = 32
"""Of each kind; those that were not used for the longest time are closed."""


class Client(Protocol):
    def close(self) -> None: ...


T = TypeVar("T", bound=Client)


class KeptClients(Generic[T]):
    def __init__(self, most: int = MOST_KEPT) -> None:
        self._kept: OrderedDict[Hashable, T] = OrderedDict()
        self._most = most

    @contextmanager
    def taken(self, key: Hashable, make: Callable[[], T]) -> Iterator[T]:
        """The client of the last use of this key, or a new one; kept for the next use if nothing goes wrong."""
        client = self._kept.pop(key, None)
        if client is None:
            client = make()
        try:
            yield client
        except BaseException:
            client.close()
            raise
        # Another use of the key may have begun and ended meanwhile.
        self.drop(key)
        self._kept[key] = client
        while len(self._kept) > self._most:
            _, oldest = self._kept.popitem(last=False)
            oldest.close()

    def kept(self, key: Hashable) -> T | None:
        """The client that the next use would take."""
        return self._kept.get(key)

    def drop(self, key: Hashable) -> None:
        """Make another one at the next use."""
        client = self._kept.pop(key, None)
        if client is not None:
            client.close()
