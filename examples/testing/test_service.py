"""A service that reads orders and writes invoices, tested with the Kafka client that it uses and a real broker."""

import json
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

from levada.testing import EmbeddedBroker


class Invoicing:
    """The code under test: an invoice for each order, and a place for orders that make no sense."""

    def __init__(self, bootstrap: str) -> None:
        self._stopping = threading.Event()
        self._producer = Producer({"bootstrap.servers": bootstrap})
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "invoicing",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )

    def run(self) -> None:
        self._consumer.subscribe(["orders"])
        while not self._stopping.is_set():
            message = self._consumer.poll(0.1)
            if message is None or message.error():
                continue
            self._handle(message.key(), message.value())
            self._producer.flush()
            self._consumer.commit(message=message, asynchronous=False)
        self._consumer.close()

    def stop(self) -> None:
        self._stopping.set()

    def _handle(self, customer: bytes | None, order: bytes | None) -> None:
        try:
            wanted = json.loads(order or b"")
            total = wanted["amount"] * wanted["price"]
        except (ValueError, KeyError):
            self._producer.produce("orders-refused", order, customer)
            return
        self._producer.produce("invoices", json.dumps({"total": total}), customer)


@pytest.fixture
def invoicing(levada_broker: EmbeddedBroker) -> Iterator[Invoicing]:
    levada_broker.create_topic("orders", partitions=3)
    service = Invoicing(levada_broker.bootstrap)
    running = threading.Thread(target=service.run)
    running.start()
    yield service
    service.stop()
    running.join()


@pytest.mark.usefixtures("invoicing")
def test_every_order_gets_an_invoice(levada_broker: EmbeddedBroker) -> None:
    levada_broker.produce("orders", [("anna", '{"amount": 2, "price": 5}'), ("ben", '{"amount": 1, "price": 7}')])

    invoices = levada_broker.wait_for_records("invoices", 2)

    assert {(record.key, record.value) for record in invoices} == {
        (b"anna", b'{"total": 10}'),
        (b"ben", b'{"total": 7}'),
    }


@pytest.mark.usefixtures("invoicing")
def test_an_order_without_a_price_does_not_stop_the_others(levada_broker: EmbeddedBroker) -> None:
    levada_broker.produce("orders", [("anna", '{"amount": 2}'), ("anna", '{"amount": 2, "price": 5}')])

    assert [record.value for record in levada_broker.wait_for_records("invoices")] == [b'{"total": 10}']
    assert [record.value for record in levada_broker.records("orders-refused")] == [b'{"amount": 2}']
