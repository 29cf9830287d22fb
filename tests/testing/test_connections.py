"""Connections of an embedded broker that are cut, healed, and robbed of their replies."""

import socket

import pytest
from confluent_kafka import Producer as ConfluentProducer

from levada import Admin
from levada.client.errors import KafkaError
from levada.testing import EmbeddedBroker, NotInTime


def values(broker: EmbeddedBroker, topic: str) -> list[bytes | None]:
    return [record.value for record in broker.records(topic)]


def is_refused(broker: EmbeddedBroker, **options: object) -> bool:
    with Admin(broker.bootstrap, default_api_timeout_ms=300, request_timeout_ms=300, **options) as admin:
        try:
            admin.describe_cluster()
        except KafkaError:
            return True
    return False


def test_no_client_is_connected_while_all_connections_are_cut(levada_broker: EmbeddedBroker) -> None:
    producer = levada_broker.producer()
    producer.send("orders", b"before").result()
    with levada_broker.connections_cut():
        during = producer.send("orders", b"during")
        assert is_refused(levada_broker)
        assert not during.done()
    during.result()
    assert not is_refused(levada_broker)
    assert values(levada_broker, "orders") == [b"before", b"during"]


def test_an_open_connection_sees_a_reset(levada_broker: EmbeddedBroker) -> None:
    with socket.create_connection(("localhost", levada_broker.port)) as connection:
        connection.settimeout(10)
        levada_broker.create_topic("orders")
        levada_broker.cut_connections()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)


def test_one_client_is_cut_off_and_the_others_are_not(levada_broker: EmbeddedBroker) -> None:
    with levada_broker.connections_cut("unlucky"):
        assert is_refused(levada_broker, client_id="unlucky")
        assert not is_refused(levada_broker, client_id="lucky")
        assert not is_refused(levada_broker, client_id="unlucky-not")
    assert not is_refused(levada_broker, client_id="unlucky")


def test_a_request_whose_reply_is_swallowed_was_carried_out(levada_broker: EmbeddedBroker) -> None:
    levada_broker.create_topic("orders")
    producer = levada_broker.producer(client_id="till", request_timeout_ms=60_000)
    producer.send("orders", b"first").result()
    with levada_broker.replies_swallowed("till"):
        second = producer.send("orders", b"second")
        assert len(levada_broker.wait_for_records("orders", 2)) == 2
        assert not second.done()
    # It is repeated on a new connection as soon as all is well, long before its request would time out.
    assert second.result(30).offset == 1
    assert values(levada_broker, "orders") == [b"first", b"second"]


def test_all_replies_can_be_swallowed(levada_broker: EmbeddedBroker) -> None:
    with levada_broker.replies_swallowed():
        assert is_refused(levada_broker)
    assert not is_refused(levada_broker)


def test_other_clients_come_through_a_cut_as_well(levada_broker: EmbeddedBroker) -> None:
    levada_broker.create_topic("orders")
    failures: list[object] = []
    producer = ConfluentProducer({"bootstrap.servers": levada_broker.bootstrap, "reconnect.backoff.ms": 10})
    with levada_broker.connections_cut():
        producer.produce("orders", b"first", on_delivery=lambda error, _: failures.append(error))
        assert producer.flush(0.3) == 1
    assert producer.flush(30) == 0
    assert failures == [None]
    assert values(levada_broker, "orders") == [b"first"]


def test_the_helpers_are_clients_too(levada_broker: EmbeddedBroker) -> None:
    levada_broker.produce("orders", ["first"])
    with levada_broker.connections_cut(), pytest.raises(NotInTime):
        levada_broker.wait_for_records("orders", timeout=0.3)
    assert len(levada_broker.wait_for_records("orders")) == 1


def test_a_cut_broker_can_be_stopped() -> None:
    with EmbeddedBroker() as broker:
        broker.producer().send("orders", b"first").result()
        broker.cut_connections()
