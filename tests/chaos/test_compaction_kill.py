"""SIGKILL to the broker, to its worker, or to both, in the middle of cleanings: the last value of each key stays."""

import os
import random
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from levada import Admin, Consumer, Producer
from levada.client.admin import NewTopic
from levada.client.types import TopicPartition
from tests.brokers import BrokerProcess
from tests.tools.stages import wait_until

KILLS = 50 if os.environ.get("LEVADA_SOAK") == "1" else 8
TOPIC = "compacted"
KEYS = 200
CLEANED = "INFO levada.node.cleaning cleaned log="
SETTINGS = ("log.cleaner.backoff.ms=10", "log.cleaner.min.cleanable.ratio=0.01", "log.segment.delete.delay.ms=200")
CONFIGS = {"cleanup.policy": "compact", "internal.segment.bytes": "60000", "delete.retention.ms": "0"}


class Writer:
    """Counts each key up, or deletes it, one batch after the other, through every restart."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        self.acknowledged: dict[bytes, tuple[int, bytes | None]] = {}
        """Offset and value of the last record of each key that was acknowledged."""
        self.written = 0
        self._chance = random.Random(seed)
        self._stopping = threading.Event()
        self._producer = Producer(bootstrap, delivery_timeout_ms=60_000, retry_backoff_ms=20, linger_ms=1)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._producer.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            sent = []
            for _ in range(50):
                key = b"key-%d" % self._chance.randrange(KEYS)
                value = None if self._chance.random() < 0.1 else b"%d" % self.written + bytes(200)
                sent.append((key, value, self._producer.send(TOPIC, value, key=key, partition=0)))
                self.written += 1
            for key, value, handle in sent:
                self.acknowledged[key] = (handle.result().offset, value)


def workers_of(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children]


def stopped_while_cleaning(broker: BrokerProcess) -> bool:
    """Whether the broker's one worker was stopped before it was done; one that was not goes on."""
    workers = workers_of(broker.pid)
    if len(workers) != 1 or not _has_cleaned(broker):
        return False
    with suppress(ProcessLookupError, FileNotFoundError):
        os.kill(workers[0], signal.SIGSTOP)
        state = Path(f"/proc/{workers[0]}/stat")
        wait_until(lambda: state.read_text().rpartition(") ")[2][0] in "TZ")
        if state.read_text().rpartition(") ")[2][0] == "T" and _has_cleaned(broker):
            return True
        os.kill(workers[0], signal.SIGCONT)
    return False


def _has_cleaned(broker: BrokerProcess) -> bool:
    return any(".cleaned" in path.name for path in (broker.data_directory / f"{TOPIC}-0").iterdir())


def kill(broker: BrokerProcess, victims: str) -> None:
    """The broker, its workers, or both; a broker that is gone is started again."""
    workers = workers_of(broker.pid)
    if victims != "workers":
        broker.kill()
    if victims != "broker":
        for worker in workers:
            try:
                os.kill(worker, signal.SIGKILL)
            except ProcessLookupError:
                continue
    if victims != "workers":
        broker.start()


def read_all(broker: BrokerProcess) -> dict[int, tuple[bytes, bytes | None]]:
    partition = TopicPartition(TOPIC, 0)
    found: dict[int, tuple[bytes, bytes | None]] = {}
    with Consumer(broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        while consumer.position(partition) < end:
            for record in consumer.poll(1.0):
                assert record.key is not None
                found[record.offset] = (record.key, record.value)
    return found


def check(found: dict[int, tuple[bytes, bytes | None]], writer: Writer) -> None:
    """No key's last value is lost, and no value that was replaced or deleted is the last one again."""
    last = {key: (offset, value) for offset, (key, value) in sorted(found.items())}
    for key, (offset, value) in writer.acknowledged.items():
        if value is None and key not in last:
            continue
        assert key in last, (key, offset)
        assert last[key] == (offset, value), (key, offset, last[key][0])


@pytest.mark.parametrize("seed", [1])
def test_kills_in_the_middle_of_cleanings_lose_no_keys_last_value(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    broker = BrokerProcess(tmp_path / "data", *SETTINGS).start()
    try:
        with Admin(broker.bootstrap) as admin:
            admin.create_topics([NewTopic(TOPIC, 1, configs=CONFIGS)]).raise_any()
        writer = Writer(broker.bootstrap, seed)
        for _ in range(KILLS):
            wait_for_a_cleaning(broker)
            time.sleep(chance.random() * 0.3)
            kill(broker, chance.choice(("broker", "workers", "both")))
        writer.stop()
        check(read_all(broker), writer)
        assert broker.stop() == 0
        broker.start()
        check(read_all(broker), writer)
        wait_until(lambda: not leftovers(broker))
        assert "Traceback" not in broker.log
        assert "uncleanable" not in broker.log
    finally:
        broker.kill()


def wait_for_a_cleaning(broker: BrokerProcess) -> None:
    """Another one follows at once, for the writer goes on."""
    before = broker.log.count(CLEANED)
    wait_until(lambda: broker.log.count(CLEANED) > before, 60)


def leftovers(broker: BrokerProcess) -> list[str]:
    names = [path.name for path in (broker.data_directory / f"{TOPIC}-0").iterdir()]
    return [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]


def test_a_worker_that_cannot_go_on_changes_nothing(tmp_path: Path) -> None:
    """It is stopped while it works, and let go when its broker is dead and another one works on the same files."""
    broker = BrokerProcess(tmp_path / "data", *SETTINGS).start()
    try:
        with Admin(broker.bootstrap) as admin:
            admin.create_topics([NewTopic(TOPIC, 1, configs=CONFIGS)]).raise_any()
        writer = Writer(broker.bootstrap, 7)
        try:
            wait_until(lambda: stopped_while_cleaning(broker))
            [worker] = workers_of(broker.pid)
            broker.kill()
            broker.start()
            before = writer.written
            wait_until(lambda: writer.written > before + 500, 60)
            os.kill(worker, signal.SIGCONT)
            before = writer.written
            wait_until(lambda: writer.written > before + 500, 60)
        finally:
            writer.stop()
        check(read_all(broker), writer)
        assert broker.stop() == 0
        assert "Traceback" not in broker.log
    finally:
        broker.kill()
