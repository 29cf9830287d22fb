"""The time of an embedded broker: it stands still, it moves, and what happens by time happens with it."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from levada import Admin, Consumer, Producer
from levada.client.types import TopicPartition
from levada.net.channel import Channel
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from levada.testing import EmbeddedBroker, wait_until
from levada.world.real_net import RealNet

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
LATE_TRANSACTIONS_SECONDS = 10
"""How often the broker looks for transactions that are late."""


def members(admin: Admin, group: str) -> int:
    return len(admin.describe_consumer_groups([group])[group].members)


def join(broker: EmbeddedBroker, session_timeout_ms: int) -> Consumer:
    consumer = broker.consumer(
        "orders",
        group_id="shop",
        client_id="member",
        session_timeout_ms=session_timeout_ms,
        heartbeat_interval_ms=session_timeout_ms // 3,
    )
    wait_until(lambda: consumer.poll(0.01) or consumer.assignment())
    return consumer


def test_frozen_time_is_the_same_whenever_one_looks(levada_broker: EmbeddedBroker) -> None:
    levada_broker.create_topic("clicks", message_timestamp_type="LogAppendTime")
    with levada_broker.frozen_time() as frozen:
        assert frozen.is_frozen
        now_ms = frozen.now_ms()
        levada_broker.produce("clicks", ["one"])
        levada_broker.produce("clicks", ["two"])
        frozen.advance(minutes=5)
        levada_broker.produce("clicks", ["three"])
        times_ms = [record.timestamp_ms for record in levada_broker.records("clicks")]
    assert times_ms == [now_ms, now_ms, now_ms + 5 * MINUTE_MS]
    assert not levada_broker.time.is_frozen


def test_time_runs_on_from_where_it_was_moved_to(levada_broker: EmbeddedBroker) -> None:
    before_ms = time.time_ns() // 1_000_000
    with levada_broker.frozen_time() as frozen:
        frozen.advance(days=1, hours=1, minutes=1, seconds=1)
    there_ms = levada_broker.time.now_ms()
    assert there_ms >= before_ms + DAY_MS + HOUR_MS + MINUTE_MS + 1_000
    wait_until(lambda: levada_broker.time.now_ms() > there_ms)


def test_time_that_runs_can_be_moved_as_well(levada_broker: EmbeddedBroker) -> None:
    before_ms = levada_broker.time.now_ms()
    levada_broker.time.advance(hours=1)
    assert HOUR_MS <= levada_broker.time.now_ms() - before_ms < 2 * HOUR_MS
    assert not levada_broker.time.is_frozen


def test_two_threads_that_move_time_do_so_one_after_the_other(levada_broker: EmbeddedBroker) -> None:
    with levada_broker.frozen_time() as broker_time, ThreadPoolExecutor(4) as threads:
        before_ms = broker_time.now_ms()
        for moved in [threads.submit(broker_time.advance, hours=1) for _ in range(8)]:
            moved.result(30)
        assert broker_time.now_ms() == before_ms + 8 * 3_600_000


def test_time_does_not_go_back(levada_broker: EmbeddedBroker) -> None:
    with pytest.raises(ValueError, match="time does not go back"):
        levada_broker.time.advance(seconds=-1)


def test_time_stands_still_again_after_a_restart(levada_broker: EmbeddedBroker) -> None:
    with levada_broker.frozen_time() as frozen:
        frozen.advance(days=3)
        before_ms = frozen.now_ms()
        levada_broker.restart()
        assert frozen.is_frozen
        assert before_ms <= frozen.now_ms() < before_ms + MINUTE_MS


def test_a_session_ends_when_its_time_has_passed_and_not_before(levada_broker: EmbeddedBroker) -> None:
    levada_broker.create_topic("orders")
    admin = levada_broker.admin()
    join(levada_broker, 45_000)
    with levada_broker.frozen_time() as frozen, levada_broker.connections_cut("member"):
        frozen.advance(seconds=44)
        assert members(admin, "shop") == 1
        frozen.advance(seconds=2)
        assert members(admin, "shop") == 0


@pytest.mark.levada(group_min_session_timeout_ms=1)
def test_nothing_happens_by_itself_while_time_stands_still(levada_broker: EmbeddedBroker) -> None:
    levada_broker.create_topic("orders")
    admin, other = levada_broker.admin(), levada_broker.consumer(client_id="other")
    other.assign([TopicPartition("orders", 0)])
    join(levada_broker, 300)
    with levada_broker.frozen_time() as frozen, levada_broker.connections_cut("member"):
        # A second of real time.
        assert other.poll(1.0) == []
        assert members(admin, "shop") == 1
        frozen.advance(seconds=0.4)
        assert members(admin, "shop") == 0


def test_a_transaction_times_out(levada_broker: EmbeddedBroker) -> None:
    producer = levada_broker.producer(transactional_id="till", transaction_timeout_ms=5 * MINUTE_MS)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("payments", b"open").result()
    admin = levada_broker.admin()
    with levada_broker.frozen_time() as frozen:
        frozen.advance(minutes=4)
        assert admin.describe_transactions(["till"])["till"].state == "Ongoing"
        frozen.advance(minutes=1, seconds=LATE_TRANSACTIONS_SECONDS + 1)
        wait_until(lambda: admin.describe_transactions(["till"])["till"].state == "CompleteAbort")
    assert levada_broker.records("payments", isolation_level="read_committed") == []


def test_old_records_go_by_retention(levada_broker: EmbeddedBroker) -> None:
    levada_broker.create_topic("clicks", retention_ms=HOUR_MS)
    levada_broker.produce("clicks", ["old"])
    with levada_broker.frozen_time() as frozen:
        frozen.advance(minutes=50)
        assert len(levada_broker.records("clicks")) == 1
        frozen.advance(minutes=20)
        assert levada_broker.records("clicks") == []


def test_a_producer_that_was_silent_for_a_day_is_forgotten(levada_broker: EmbeddedBroker) -> None:
    levada_broker.produce("orders", ["first"])
    admin, partition = levada_broker.admin(), TopicPartition("orders", 0)
    assert len(admin.describe_producers([partition])[partition]) == 1
    levada_broker.time.advance(days=1, hours=1)
    assert len(admin.describe_producers([partition])[partition]) == 0


def test_a_long_poll_ends_in_the_time_of_the_client_that_asked_for_it(levada_broker: EmbeddedBroker) -> None:
    levada_broker.create_topic("orders")

    async def fetch_twice() -> float:
        channel = await Channel.connect(RealNet(), "localhost", levada_broker.port)
        partitions = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)]
        request = FetchRequest(max_wait_ms=100, min_bytes=1, topics=[FetchTopic(topic="orders", partitions=partitions)])
        began = time.monotonic()
        for _ in range(2):
            await asyncio.wait_for(channel.call(request, 12), 30)
        channel.close()
        return time.monotonic() - began

    with levada_broker.frozen_time():
        assert asyncio.run(fetch_twice()) >= 0.2


def test_a_consumer_that_waits_hears_of_a_record_while_time_stands_still(levada_broker: EmbeddedBroker) -> None:
    levada_broker.create_topic("orders")
    consumer = levada_broker.consumer("orders", group_id="shop")
    with levada_broker.frozen_time():
        assert consumer.poll(0.2) == []
        levada_broker.produce("orders", ["first"])
        assert [record.value for record in consumer.poll(30)] == [b"first"]


def test_a_broker_whose_time_stands_still_can_be_stopped() -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("orders")
        consumer = Consumer(broker.bootstrap, group_id="shop")
        consumer.subscribe(["orders"])
        consumer.poll(0.1)
        broker.time.freeze()
    consumer.close(0)


def test_a_member_whose_client_lives_is_sent_away_and_comes_back(levada_broker: EmbeddedBroker) -> None:
    levada_broker.create_topic("orders")
    consumer = levada_broker.consumer("orders", group_id="shop", session_timeout_ms=10_000, heartbeat_interval_ms=5)
    wait_until(lambda: consumer.poll(0.01) or consumer.assignment())
    first = consumer.group_metadata().generation_id
    levada_broker.time.advance(seconds=11)
    wait_until(lambda: consumer.poll(0.05) or consumer.group_metadata().generation_id > first)
    with Producer(levada_broker.bootstrap) as producer:
        producer.send("orders", b"for it")
        assert [record.value for record in consumer.poll(30)] == [b"for it"]


def test_a_year_passes(levada_broker: EmbeddedBroker) -> None:
    before_ms = levada_broker.time.now_ms()
    levada_broker.time.advance(days=365)
    levada_broker.produce("orders", ["a year later"])
    assert levada_broker.time.now_ms() - before_ms >= 365 * DAY_MS
