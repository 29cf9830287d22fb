"""The embedded broker: its life, its settings, its helpers, and what it leaves behind."""

import asyncio
import gc
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable

import pytest

from levada.model.config import ConfigError
from levada.node import Node
from levada.testing import EmbeddedBroker, NotInTime, wait_until

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"


def values(broker: EmbeddedBroker, topic: str) -> list[bytes | None]:
    return [record.value for record in broker.records(topic)]


def open_files() -> set[str]:
    """Where this process's descriptors lead to."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
        except FileNotFoundError:
            # The descriptor of the listing itself.
            continue
    return found


# Life


def test_it_works_without_pytest_in_a_with_block() -> None:
    with EmbeddedBroker() as broker:
        assert broker.bootstrap == f"localhost:{broker.port}"
        broker.produce("orders", ["first"])
        assert values(broker, "orders") == [b"first"]
        directory = broker.data_directory
        assert (directory / "orders-0").is_dir()
    assert not broker.is_running
    assert not directory.exists()


def test_two_brokers_know_nothing_of_each_other(make_levada_broker: Callable[..., EmbeddedBroker]) -> None:
    one, other = make_levada_broker(), make_levada_broker()
    one.create_topic("orders")
    assert "orders" in one.admin().list_topics()
    assert "orders" not in other.admin().list_topics()


def test_a_stopped_broker_leaves_no_thread_no_file_and_no_socket() -> None:
    # The first one loads what stays loaded.
    for _ in range(2):
        gc.collect()
        threads, files = set(threading.enumerate()), open_files()
        with EmbeddedBroker() as broker:
            broker.create_topic("orders", partitions=3)
            broker.produce("orders", ["first", "second"])
            broker.consumer("orders", group_id="shop").poll(5)
            broker.producer(transactional_id="till").init_transactions()
            broker.admin().describe_cluster()
            directory = broker.data_directory
        gc.collect()
    # One of an earlier test may have ended meanwhile.
    assert set(threading.enumerate()) <= threads
    assert open_files() == files
    assert not directory.exists()


def test_a_broker_that_cannot_start_says_so_to_the_caller_and_leaves_nothing() -> None:
    threads = set(threading.enumerate())
    with EmbeddedBroker() as running:
        broker = EmbeddedBroker(advertised_listeners="PLAINTEXT://localhost:1", levada_metrics_port=running.port)
        with pytest.raises(OSError, match="in use"):
            broker.start()
        assert not broker.is_running
        with pytest.raises(RuntimeError, match="has not been started"):
            _ = broker.bootstrap
    # One of an earlier test may have ended meanwhile.
    assert set(threading.enumerate()) <= threads


def test_a_wrong_setting_is_refused_with_the_nearest_known_name() -> None:
    with pytest.raises(ConfigError, match=r"log\.retention\.ms"):
        EmbeddedBroker(log_retentoin_ms=1).start()


def test_it_cannot_run_twice_and_does_nothing_while_it_does_not_run() -> None:
    broker = EmbeddedBroker()
    with pytest.raises(RuntimeError, match="does not run"):
        broker.create_topic("orders")
    with broker, pytest.raises(RuntimeError, match="runs already"):
        broker.start()
    # To stop what does not run is no mistake: a fixture may do it after the test did.
    broker.stop()


def test_a_restart_keeps_port_and_records_and_open_clients(levada_broker: EmbeddedBroker) -> None:
    producer = levada_broker.producer()
    producer.send("orders", b"before").result()
    bootstrap = levada_broker.bootstrap
    levada_broker.restart()
    assert levada_broker.bootstrap == bootstrap
    producer.send("orders", b"after").result()
    assert values(levada_broker, "orders") == [b"before", b"after"]


def test_a_killed_broker_has_said_no_goodbye_and_lost_nothing_it_acknowledged(
    levada_broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    levada_broker.produce("orders", ["acknowledged"])
    directory = levada_broker.data_directory
    threads = threading.active_count()
    with caplog.at_level(logging.WARNING):
        levada_broker.kill()
        gc.collect()
    assert not levada_broker.is_running
    assert threading.active_count() < threads
    assert not (directory / CLEAN_SHUTDOWN).exists()
    assert not [line for line in caplog.messages if "never retrieved" in line or "destroyed" in line]
    levada_broker.start()
    assert values(levada_broker, "orders") == [b"acknowledged"]
    levada_broker.restart()
    assert values(levada_broker, "orders") == [b"acknowledged"]


def test_a_killed_broker_holds_no_file_and_no_socket(levada_broker: EmbeddedBroker) -> None:
    gc.collect()
    gc.disable()
    try:
        levada_broker.produce("orders", ["acknowledged"])
        directory, port = str(levada_broker.data_directory), levada_broker.port
        assert [path for path in open_files() if directory in path]
        levada_broker.kill()
        assert not [path for path in open_files() if directory in path]
        with socket.socket() as free:
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            free.bind(("127.0.0.1", port))
    finally:
        gc.enable()


def test_an_interrupt_during_the_start_ends_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = []

    async def start(_: Node) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    async def stop(node: Node) -> None:
        stopped.append(node)

    monkeypatch.setattr(Node, "start", start)
    monkeypatch.setattr(Node, "stop", stop)
    threads = set(threading.enumerate())
    broker = EmbeddedBroker()
    with pytest.raises(KeyboardInterrupt):
        broker.start()
    wait_until(lambda: len(stopped) == 1)
    assert not broker.is_running
    # One of an earlier test may have ended meanwhile.
    wait_until(lambda: set(threading.enumerate()) <= threads)


def test_a_client_that_cannot_be_closed_keeps_no_other_open() -> None:
    threads = set(threading.enumerate())
    broker = EmbeddedBroker().start()
    broker.produce("orders", ["first"])
    producer = broker.producer()
    broker.admin()
    broker.consumer("orders", group_id="shop")
    directory = broker.data_directory

    async def fail(*_: object) -> None:
        raise RuntimeError("no goodbye")

    producer._close = fail
    with pytest.raises(RuntimeError, match="no goodbye"):
        broker.stop()
    assert not broker.is_running
    assert not directory.exists()
    assert set(threading.enumerate()) <= threads


def test_a_clean_stop_is_told_from_a_kill(levada_broker: EmbeddedBroker) -> None:
    """So that the test above would see it."""
    directory = levada_broker.data_directory
    levada_broker._stop_thread()
    assert (directory / CLEAN_SHUTDOWN).exists()


def test_a_killed_broker_can_be_stopped(levada_broker: EmbeddedBroker) -> None:
    directory = levada_broker.data_directory
    levada_broker.kill()
    levada_broker.stop()
    assert not directory.exists()


# Settings


@pytest.mark.levada({"num.partitions": 3}, auto_create_topics_enable=True)
def test_settings_come_by_dotted_names_and_by_keywords(levada_broker: EmbeddedBroker) -> None:
    levada_broker.produce("orders", ["first"])
    described = levada_broker.admin().describe_topics(["orders"])["orders"]
    assert len(described.partitions) == 3


def test_the_first_group_and_the_first_transaction_make_one_partition(levada_broker: EmbeddedBroker) -> None:
    levada_broker.create_topic("orders")
    levada_broker.consumer("orders", group_id="shop").poll(0.1)
    levada_broker.producer(transactional_id="till").init_transactions()
    names = ["__consumer_offsets", "__transaction_state"]
    described = levada_broker.admin().describe_topics(names)
    assert [len(described[name].partitions) for name in names] == [1, 1]


# Helpers


def test_a_topic_has_the_configs_it_was_given(levada_broker: EmbeddedBroker) -> None:
    levada_broker.create_topic("orders", 2, cleanup_policy="compact", retention_ms=1_000)
    admin = levada_broker.admin()
    created = admin.describe_topics(["orders"])["orders"]
    assert len(created.partitions) == 2
    assert (levada_broker.data_directory / "orders-1").is_dir()


def test_values_keys_headers_partitions_and_times_arrive(levada_broker: EmbeddedBroker) -> None:
    levada_broker.create_topic("orders", 2)
    placed = levada_broker.produce(
        "orders",
        ["text", b"bytes", None, ("key", "value"), (None, b"keyless")],
        partition=1,
        headers={"tag": b"vip"},
        timestamp_ms=1_234,
    )
    assert [(one.partition, one.offset) for one in placed] == [(1, offset) for offset in range(5)]
    found = levada_broker.records("orders")
    assert [(record.key, record.value) for record in found] == [
        (None, b"text"),
        (None, b"bytes"),
        (None, None),
        (b"key", b"value"),
        (None, b"keyless"),
    ]
    assert {(record.headers, record.timestamp_ms) for record in found} == {((("tag", b"vip"),), 1_234)}


def test_records_come_by_partition_and_offset(levada_broker: EmbeddedBroker) -> None:
    levada_broker.create_topic("orders", 3)
    for value, partition in (("c", 2), ("a", 0), ("b", 1), ("d", 2)):
        levada_broker.produce("orders", [value], partition=partition)
    assert values(levada_broker, "orders") == [b"a", b"b", b"c", b"d"]


def test_waiting_ends_as_soon_as_the_records_are_there_even_if_their_topic_was_not(
    levada_broker: EmbeddedBroker,
) -> None:
    producer = levada_broker.producer()
    later = threading.Timer(0.2, lambda: producer.send("orders", b"late"))
    later.start()
    assert [record.value for record in levada_broker.wait_for_records("orders", timeout=60)] == [b"late"]
    later.join()


def test_more_records_than_were_waited_for_are_all_shown(levada_broker: EmbeddedBroker) -> None:
    levada_broker.produce("orders", ["one", "two", "three"])
    assert len(levada_broker.wait_for_records("orders", 1)) == 3


def test_who_waits_in_vain_is_told_what_was_there(levada_broker: EmbeddedBroker) -> None:
    levada_broker.produce("orders", [("anna", "only one"), "x" * 1_000])
    with pytest.raises(NotInTime) as raised:
        levada_broker.wait_for_records("orders", 3, timeout=0.3)
    text = str(raised.value)
    assert "orders has 2 of 3 records after 0.3 s" in text
    assert "orders-0@0 key=b'anna' value=b'only one'" in text
    assert "x" * 1_000 not in text
    with pytest.raises(NotInTime, match="there is no topic nowhere"):
        levada_broker.wait_for_records("nowhere", timeout=0.1)
    assert "nowhere" not in levada_broker.admin().list_topics()


def test_committed_records_are_told_from_others(levada_broker: EmbeddedBroker) -> None:
    producer = levada_broker.producer(transactional_id="till")
    producer.init_transactions()
    for ending in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.send("payments", ending.__name__.encode())
        producer.flush()
        ending()
    assert values(levada_broker, "payments") == [b"commit_transaction", b"abort_transaction"]
    committed = levada_broker.wait_for_records("payments", isolation_level="read_committed")
    assert [record.value for record in committed] == [b"commit_transaction"]


def test_a_condition_is_asked_until_it_holds() -> None:
    answers = iter(["", "", "yes"])
    assert wait_until(lambda: next(answers)) == "yes"
    with pytest.raises(NotInTime, match=r"lambda.*\(line \d+\) was still 0 after 0.05 s"):
        wait_until(lambda: 0, timeout=0.05)


def test_a_consumer_begins_with_the_first_record_unless_told_otherwise(levada_broker: EmbeddedBroker) -> None:
    levada_broker.produce("orders", ["first"])
    assert [record.value for record in levada_broker.consumer("orders", group_id="shop").poll(10)] == [b"first"]
    late = levada_broker.consumer("orders", group_id="late", auto_offset_reset="latest")
    wait_until(lambda: late.poll(0.05) or late.assignment())
    levada_broker.produce("orders", ["second"])
    assert [record.value for record in late.poll(10)] == [b"second"]


# Logs


def test_log_lines_of_the_broker_reach_the_logging_of_the_test(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="levada"), EmbeddedBroker():
        pass
    assert any(line.startswith("started node_id=1") for line in caplog.messages)


def test_the_settings_for_tests_bring_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), EmbeddedBroker() as broker:
        broker.create_topic("orders")
        broker.consumer("orders", group_id="shop").poll(0.1)
        broker.producer(transactional_id="till").init_transactions()
    assert caplog.messages == []
