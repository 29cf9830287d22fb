"""What else takes minutes, or a broken network: sessions and transactions that time out, replies that are lost."""

from levada import Consumer
from levada.testing import EmbeddedBroker, wait_until


def assigned(consumer: Consumer) -> set[int]:
    """The partitions a member of a group has, after it had a chance to hear of changes."""
    consumer.poll(0.05)
    return {one.partition for one in consumer.assignment()}


def test_a_member_that_vanishes_is_replaced_after_its_session(levada_broker: EmbeddedBroker) -> None:
    levada_broker.create_topic("orders", partitions=2)
    # Clients live in real time: with short heartbeats they soon hear what has changed.
    options = {"group_id": "shop", "heartbeat_interval_ms": 100}
    first = levada_broker.consumer("orders", client_id="first", session_timeout_ms=45_000, **options)
    second = levada_broker.consumer("orders", client_id="second", session_timeout_ms=600_000, **options)
    wait_until(lambda: len(assigned(first)) == len(assigned(second)) == 1)

    with levada_broker.frozen_time() as time, levada_broker.connections_cut("first"):
        time.advance(seconds=44)
        assert len(assigned(second)) == 1
        time.advance(seconds=2)
        wait_until(lambda: len(assigned(second)) == 2)


def test_a_transaction_that_is_not_ended_holds_readers_up_for_its_timeout(levada_broker: EmbeddedBroker) -> None:
    levada_broker.create_topic("payments")
    producer = levada_broker.producer(transactional_id="till-1", transaction_timeout_ms=60_000)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("payments", b"never committed").result()
    levada_broker.produce("payments", ["behind it"])
    assert levada_broker.records("payments", isolation_level="read_committed") == []

    # A minute, and the ten seconds between two looks for transactions that are late.
    levada_broker.time.advance(seconds=71)

    committed = levada_broker.wait_for_records("payments", isolation_level="read_committed")
    assert [record.value for record in committed] == [b"behind it"]


def test_a_payment_is_booked_once_though_its_acknowledgement_was_lost(levada_broker: EmbeddedBroker) -> None:
    levada_broker.create_topic("payments")
    producer = levada_broker.producer(client_id="till", request_timeout_ms=1_000)
    producer.send("payments", b"first").result()

    with levada_broker.replies_swallowed("till"):
        second = producer.send("payments", b"second")
        levada_broker.wait_for_records("payments", 2)

    # The broker has it, and the producer does not know: it sends it again, and the broker knows it again.
    assert second.result().offset == 1
    assert [record.value for record in levada_broker.records("payments")] == [b"first", b"second"]


def test_what_is_older_than_its_retention_goes(levada_broker: EmbeddedBroker) -> None:
    levada_broker.create_topic("clicks", retention_ms=86_400_000, segment_ms=3_600_000)
    levada_broker.produce("clicks", ["yesterday"])

    levada_broker.time.advance(days=2)
    levada_broker.produce("clicks", ["today"], timestamp_ms=levada_broker.time.now_ms())

    wait_until(lambda: [record.value for record in levada_broker.records("clicks")] == [b"today"])
