"""A streaming query in a process of its own that is killed and started again, and a reader that looks all along."""

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from levada import Consumer, Producer
from levada.client.errors import KafkaError
from levada.client.types import TopicPartition
from tests.brokers import BrokerProcess
from tests.spark.driver_faults import BROKER, DIRECTORY, Fault, failed_queries, fired, pids_of, write_plan

ROOT = Path(__file__).parents[2]
LOOK_SECONDS = 0.05


class WholeBatches:
    """Reads committed records all the time, and remembers how many of each batch it ever saw in each partition."""

    def __init__(self, bootstrap: str, partitions: Iterable[TopicPartition]) -> None:
        self._bootstrap = bootstrap
        self._partitions = list(partitions)
        self._seen: Counter[tuple[TopicPartition, bytes]] = Counter()
        self.counts: dict[tuple[TopicPartition, bytes], set[int]] = {}
        """The counts that a batch had in a partition whenever the reader was at the last stable offset."""
        self.looks = 0
        self._is_over = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "WholeBatches":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            with Consumer(
                self._bootstrap,
                isolation_level="read_committed",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                default_api_timeout_ms=2_000,
                request_timeout_ms=2_000,
                fetch_max_wait_ms=50,
                max_poll_records=100_000,
            ) as consumer:
                consumer.assign(self._partitions)
                while not self._is_over.wait(LOOK_SECONDS):
                    try:
                        self._look(consumer)
                    except KafkaError:
                        # The broker was killed; the client finds it again.
                        continue
        except BaseException as error:
            self._failure = error

    def _look(self, consumer: Consumer) -> None:
        """Read exactly to where committed records ended a moment ago."""
        ends = consumer.end_offsets(self._partitions)
        for partition in self._partitions:
            while consumer.position(partition) < ends[partition]:
                for record in consumer.poll(0.2):
                    batch = dict(record.headers)["batch"] or b""
                    self._seen[TopicPartition(record.topic, record.partition), batch] += 1
        self.looks += 1
        at_their_ends = {each for each in self._partitions if consumer.position(each) == ends[each]}
        for (partition, batch), count in self._seen.items():
            if partition in at_their_ends:
                self.counts.setdefault((partition, batch), set()).add(count)


@dataclass(slots=True)
class Copying:
    """From `source` to `target`, whatever happens."""

    broker: BrokerProcess
    directory: Path
    source: str
    target: str
    rows_per_batch: int
    transaction_timeout: str = "10m"
    settings: Mapping[str, str] = field(default_factory=dict)
    codes: list[int] = field(default_factory=list)
    """How the runs have ended."""

    def plan(self, faults: Iterable[Fault]) -> None:
        write_plan(self.directory, faults)
        (self.directory / BROKER).write_text(str(self.broker.pid))

    def run(self, *, master: str = "local[2,4]", partitions: int = 0, kill_after: float | None = None) -> int:
        """One run of the driver, to its end; what it ended with. It is killed so many seconds after its first batch."""
        job = {
            "master": master,
            "bootstrap": self.broker.bootstrap,
            "source": self.source,
            "target": self.target,
            "rows_per_batch": self.rows_per_batch,
            "partitions": partitions,
            "transaction_timeout": self.transaction_timeout,
            "checkpoint": str(self.directory / "checkpoint"),
            "settings": dict(self.settings),
        }
        environment = {**os.environ, DIRECTORY: str(self.directory), "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
        with (self.directory / "driver.log").open("a") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.driver_copy", json.dumps(job)],
                stdout=log,
                stderr=log,
                env=environment,
                cwd=self.directory,
                start_new_session=True,
            )
        batches, kill_at = self._committed_batches(), math.inf
        try:
            while process.poll() is None and time.monotonic() < kill_at:
                self._revive_broker()
                if kill_after is not None and kill_at == math.inf and self._committed_batches() > batches:
                    kill_at = time.monotonic() + kill_after
                time.sleep(LOOK_SECONDS)
        finally:
            kill_all(process.pid)
            process.wait()
        self._revive_broker()
        self.codes.append(process.returncode)
        return process.returncode

    def run_to_the_end(self, partitions: Iterable[int] = ()) -> None:
        """Start it again until it has copied everything; each run with another number of partitions."""
        counts = list(partitions) or [0]
        while self.run(partitions=counts[len(self.codes) % len(counts)]) != 0:
            assert set(self.codes) <= {-signal.SIGKILL, 1}, self.log[-4_000:]
            assert self.codes.count(1) <= failed_queries(self.directory), self.log[-4_000:]

    @property
    def log(self) -> str:
        return (self.directory / "driver.log").read_text()

    @property
    def fired(self) -> list[str]:
        return fired(self.directory)

    def rows_until(self, batch: int) -> int:
        """How many rows the source had given with the end of a batch, as Spark has noted."""
        offsets = json.loads((self.directory / "checkpoint" / "offsets" / str(batch)).read_text().splitlines()[-1])
        return sum(offsets[self.source].values())

    def _committed_batches(self) -> int:
        return len(list((self.directory / "checkpoint" / "commits").glob("[0-9]*")))

    def _revive_broker(self) -> None:
        killed = self.directory / "broker.killed"
        if killed.exists():
            self.broker.kill()
            self.broker.start()
            (self.directory / BROKER).write_text(str(self.broker.pid))
            killed.unlink()


def kill_all(session: int) -> None:
    """Whatever is left of a driver; its session has its pid."""
    for pid in pids_of(session):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def fill(bootstrap: str, topic: str, count: int) -> None:
    """Numbers as text, under keys."""
    with Producer(bootstrap, linger_ms=20, batch_size=200_000) as producer:
        texts = [str(number).encode() for number in range(count)]
        producer.send_many(topic, texts, keys=texts).result()
