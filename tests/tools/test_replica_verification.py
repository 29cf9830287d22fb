"""`levada replica-verification` while it runs: reports, damage, a broker that goes, and its end by Ctrl-C."""

import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from levada import Admin, Producer
from levada.client.admin import NewTopic
from tests.brokers import BrokerProcess
from tests.tools.following import WAIT_SECONDS, Followed, followed, ours
from tests.tools.stages import SETTINGS

TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}"


def verifying(*arguments: str) -> AbstractContextManager[Followed]:
    return followed(*ours("replica-verification", *arguments))


@contextmanager
def broker_with_records(directory: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(directory, *SETTINGS).start()
    try:
        with Admin(broker.bootstrap) as admin:
            admin.create_topics([NewTopic("orders", 2), NewTopic("bills", 1)]).raise_any()
        produce(broker, 30)
        yield broker
    finally:
        broker.kill()


def produce(broker: BrokerProcess, count: int) -> None:
    with Producer(broker.bootstrap) as producer:
        for number in range(count):
            producer.send("orders", b"%d" % number, partition=0).result(WAIT_SECONDS)


FLAGS = ("--report-interval-ms", "50", "--max-wait-ms", "100")


def test_it_reports_until_it_is_interrupted(tmp_path: Path) -> None:
    with (
        broker_with_records(tmp_path / "data") as broker,
        verifying("--bootstrap-server", broker.bootstrap, "--time", "-2", *FLAGS) as running,
    ):
        running.until(f"{TIME}: verification process is started")
        running.until(f"{TIME}: max lag is 0 for partition .* among 3 partitions")
        running.process.send_signal(signal.SIGINT)
        running.until("levada: interrupted")
        assert running.process.wait(WAIT_SECONDS) == 130


def test_new_records_are_verified_as_they_come(tmp_path: Path) -> None:
    with broker_with_records(tmp_path / "data") as broker:
        flags = ("--broker-list", broker.bootstrap, "--topics-include", "orders|nothing", "--fetch-size", "100", *FLAGS)
        with verifying(*flags) as running:
            running.until(f"{TIME}: max lag is 0 for partition orders-0 at offset 30 among 2 partitions")
            produce(broker, 5)
            running.until(f"{TIME}: max lag is 0 for partition orders-0 at offset 35 among 2 partitions")


def test_damage_on_the_disk_is_found(tmp_path: Path) -> None:
    with broker_with_records(tmp_path / "data") as broker:
        (log,) = (tmp_path / "data").glob("**/orders-0/*.log")
        stored = bytearray(log.read_bytes())
        stored[len(stored) // 30 - 1] ^= 1
        log.write_bytes(stored)
        with verifying("--bootstrap-server", broker.bootstrap, "--time", "-2", *FLAGS) as running:
            running.until(f"{TIME}: partition orders-0 has a damaged batch at offset 0; replica 1's checksum .*")
            running.until(f"{TIME}: max lag is 0 .*")


def test_a_broker_that_goes_is_told_and_waited_for(tmp_path: Path) -> None:
    with (
        broker_with_records(tmp_path / "data") as broker,
        verifying("--bootstrap-server", broker.bootstrap, "--topics-include", "orders", *FLAGS) as running,
    ):
        running.until(f"{TIME}: max lag is 0 .*")
        broker.kill()
        running.until("levada: warning: broker 1 cannot be asked, and its partitions wait: .*")
        broker.start()
        produce(broker, 3)
        running.until(f"{TIME}: max lag is 0 for partition orders-0 at offset 33 among 2 partitions")
