"""Consumers that prefetch: what their polls give, and what their groups have committed."""

from collections.abc import Collection
from typing import Any

from levada import Consumer
from levada.records import ConsumerRecord
from tests.brokers import BrokerProcess

WAIT_SECONDS = 20.0
COUNT = 3_000


def reader(broker: BrokerProcess, *places: tuple[str, int], **options: Any) -> Consumer:
    consumer = Consumer(broker.bootstrap, **{"auto_offset_reset": "earliest", **options})
    if places:
        consumer.assign(places)
    return consumer


def offsets_of(records: Collection[ConsumerRecord]) -> list[int]:
    return [record.offset for record in records]


def take(consumer: Consumer, polls: int, max_records: int | None = 3) -> list[int]:
    """The offsets that so many polls give, each of which must have something."""
    offsets: list[int] = []
    for _ in range(polls):
        records = consumer.poll(WAIT_SECONDS, max_records)
        assert records
        offsets += offsets_of(records)
    return offsets


def check_has_prefetched(consumer: Consumer, polls: int) -> None:
    """Most polls did not ask the client's loop: else there is nothing to be seen here."""
    assert consumer.metrics()["poll-total"] < polls / 2


def committed(broker: BrokerProcess, group: str, *places: tuple[str, int]) -> list[int | None]:
    with Consumer(broker.bootstrap, group_id=group) as other:
        found = other.committed(places)
    return [position and position.offset for position in found.values()]
