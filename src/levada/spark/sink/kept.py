"""Clients that a Python worker of Spark keeps: to make and connect one takes longer than the rest of a small batch.

A worker has one task or one commit at a time, and a client that it has taken has no other user. What goes wrong with a
client closes it, and the next use makes another one.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from levada.client.blocking import Admin, Producer
from levada.spark.sink.options import SinkOptions

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


@dataclass(slots=True)
class DriverProducer:
    """Decides about the batches of one write."""

    producer: Producer
    decided: int | None = None
    """The last batch that it made visible, with the epoch that it still has; None before it has decided anything."""

    def close(self) -> None:
        self.producer.close()


_admins: KeptClients[Admin] = KeptClients()
_producers: KeptClients[Producer] = KeptClients()
drivers: KeptClients[DriverProducer] = KeptClients()


@contextmanager
def kept_admin(options: SinkOptions) -> Iterator[Admin]:
    settings = options.admin_settings
    with _admins.taken(_key(settings), lambda: Admin(**settings)) as admin:
        yield admin


@contextmanager
def kept_producer(options: SinkOptions, transactional_id: str | None = None) -> Iterator[Producer]:
    """One without a transaction, or one that has handed its last transaction over."""
    key = _key(options.settings), transactional_id, options.transaction_timeout_ms
    with _producers.taken(key, lambda: new_producer(options, transactional_id)) as producer:
        yield producer


def driver_key(options: SinkOptions, driver_id: str) -> Hashable:
    return _key(options.settings), driver_id


def new_producer(options: SinkOptions, transactional_id: str | None) -> Producer:
    if transactional_id is None:
        return Producer(**options.settings)
    settings = {**options.settings, "transactional.id": transactional_id}
    return Producer(**settings, transaction_timeout_ms=options.transaction_timeout_ms)


def _key(settings: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(settings.items())
