"""The sink's clients that a worker keeps from batch to batch."""

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from levada.client.blocking import Admin, Producer
from levada.spark.kept_clients import KeptClients
from levada.spark.sink.options import SinkOptions


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
