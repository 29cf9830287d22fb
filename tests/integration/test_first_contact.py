"""Where no Kafka broker is, clients say so in seconds, and what is there instead; and one that starts late is found."""

import logging
import re
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

import levada
from levada.client.errors import NoBrokerReached
from levada.client.probing import PROBE_SECONDS, faults_of
from tests.brokers import BrokerProcess
from tests.strangers import STRANGERS, stranger

MOST_SECONDS = 7.0
"""That a client says it waited, on a busy machine too; the unit test of the same name has the five seconds exactly."""
LATE_SECONDS = 5.0
"""Later than a call with default settings would wait."""


def produce(address: str) -> None:
    with levada.Producer(address) as producer:
        producer.send("orders", b"first")


def consume(address: str) -> None:
    with levada.Consumer(address, group_id="readers") as consumer:
        consumer.list_topics()


def administer(address: str) -> None:
    with levada.Admin(address) as admin:
        admin.create_topics([levada.NewTopic("orders")])


def test_every_client_says_in_seconds_what_it_met_instead_of_a_broker() -> None:
    def attempt(call: Callable[[str], None], address: str) -> str:
        with pytest.raises(NoBrokerReached) as refused:
            call(address)
        return str(refused.value)

    with ExitStack() as stack, ThreadPoolExecutor(3 * len(STRANGERS)) as pool:
        addresses = {kind: stack.enter_context(stranger(kind)) for kind in STRANGERS}
        attempts = {
            (kind, call.__name__): pool.submit(attempt, call, address)
            for kind, address in addresses.items()
            for call in (produce, consume, administer)
        }
        for (kind, name), ended in attempts.items():
            text = ended.result()
            waited = re.match(r"no Kafka broker has answered in ([\d.]+) s: ", text)
            assert waited, (kind, name, text)
            assert float(waited[1]) < MOST_SECONDS, (kind, name)
            assert f"{addresses[kind]} " in text, (kind, name)
            assert STRANGERS[kind] in text, (kind, name)


def test_a_consumer_that_polls_goes_on_trying_and_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    with ExitStack() as stack:
        addresses = {kind: stack.enter_context(stranger(kind)) for kind in STRANGERS}
        consumers = [
            stack.enter_context(levada.Consumer(address, group_id="readers")) for address in addresses.values()
        ]
        for consumer in consumers:
            consumer.subscribe(["orders"])
        for _ in range(2):
            for consumer in consumers:
                assert consumer.poll(0.4) == []
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    for kind, address in addresses.items():
        (warning,) = [text for text in warnings if text.startswith(f"{address} ")]
        assert STRANGERS[kind] in warning


def test_one_address_of_a_broker_is_enough_whatever_is_at_the_others(broker: BrokerProcess) -> None:
    with stranger("silent") as silent, stranger("full") as full:
        addresses = f"{silent},{full},{broker.bootstrap}"
        assert faults_of(addresses) == []
        with levada.Admin(addresses) as admin:
            assert admin.describe_cluster().brokers


def test_a_limit_that_the_user_chose_is_waited_for_and_a_broker_that_starts_late_is_found(tmp_path: Path) -> None:
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
    address = f"localhost:{port}"
    late: list[BrokerProcess] = []

    def start() -> None:
        late.append(BrokerProcess(tmp_path / "data", port=port).start())

    timer = threading.Timer(LATE_SECONDS, start)
    timer.start()
    try:
        with levada.Producer(address, max_block_ms=30_000) as producer:
            assert producer.send("orders", b"first").result().offset == 0
    finally:
        timer.join()
        for each in late:
            each.stop()


def test_the_tools_ask_before_they_make_a_client() -> None:
    with ExitStack() as stack:
        addresses = {kind: stack.enter_context(stranger(kind)) for kind in STRANGERS}
        faults = faults_of(list(addresses.values()))
    for (kind, address), fault in zip(addresses.items(), faults, strict=True):
        assert fault.startswith(f"{address} ")
        assert STRANGERS[kind] in fault
        if STRANGERS[kind].endswith(" in "):
            assert fault.endswith(f" in {PROBE_SECONDS:.1f} s")
    assert PROBE_SECONDS <= 4
