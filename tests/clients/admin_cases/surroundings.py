"""Producers and consumers of another make, for there to be something to administrate."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, Producer

from tests.clients.admin_cases.case import WAIT_SECONDS, Target


def produce(
    target: Target, topic: str, *values: bytes, partition: int = 0, timestamps: list[int] | None = None
) -> None:
    """One batch per record, so that offsets are those of records alone."""
    producer = Producer({"bootstrap.servers": target.bootstrap, "batch.num.messages": 1})
    for number, value in enumerate(values):
        # 0 stands for now.
        timestamp = 0 if timestamps is None else timestamps[number]
        producer.produce(topic, value, partition=partition, timestamp=timestamp)
    assert producer.flush(WAIT_SECONDS) == 0


@contextmanager
def open_transaction(target: Target, transactional_id: str, topic: str) -> Iterator[Any]:
    """A producer that has sent a record to partition 0 within a transaction that is still open."""
    producer = Producer(
        {"bootstrap.servers": target.bootstrap, "transactional.id": transactional_id, "log_level": 0, "linger.ms": 0}
    )
    producer.init_transactions(WAIT_SECONDS)
    producer.begin_transaction()
    producer.produce(topic, b"in a transaction", partition=0)
    assert producer.flush(WAIT_SECONDS) == 0
    try:
        yield producer
    finally:
        producer.purge()


@contextmanager
def member(target: Target, group_id: str, topic: str, settings: Mapping[str, Any] | None = None) -> Iterator[None]:
    """A consumer that polls in the background, with the topic's partitions its own."""
    consumer = Consumer(
        {
            "bootstrap.servers": target.bootstrap,
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
            **(settings or {}),
        }
    )
    is_assigned, is_over = threading.Event(), threading.Event()
    consumer.subscribe([topic], on_assign=lambda _, __: is_assigned.set())

    def poll() -> None:
        while not is_over.is_set():
            consumer.poll(0.1)

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        assert is_assigned.wait(WAIT_SECONDS), "the consumer was given no partitions"
        yield
    finally:
        is_over.set()
        thread.join(WAIT_SECONDS)
        consumer.close()
