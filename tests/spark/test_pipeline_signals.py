"""Signals that reach every process of a running pipeline: it ends its batch, says so, and leaves nothing."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from levada import Producer
from tests.spark.databases import wait_until
from tests.spark.test_pipeline_run import records

MARK = "LEVADA_TEST_OF_SIGNALS"
"""Spark's processes have groups of their own; each has inherited the environment."""

PIPELINE = """
import time
from pathlib import Path

def slow(batches):
    for batch in batches:
        for value in batch["value"]:
            Path({directory!r}, "begun-" + value).touch()
            if value.startswith("slow"):
                time.sleep(4)
        yield batch

def pipeline(context):
    rows = context.read({source!r}, format="string", dead_letters={source!r} + ".dead")
    frame = rows.good.select("value").mapInPandas(slow, "value string")
    context.write(frame, name="kept", topic={sink!r}, format="string")
"""


@dataclass(slots=True)
class Started:
    """A pipeline in a process of its own, with all that Spark starts for it."""

    directory: Path
    source: str
    sink: str
    bootstrap: str
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    process: "subprocess.Popen[bytes]" = field(init=False)

    def __post_init__(self) -> None:
        file = self.directory / "slow.py"
        file.write_text(PIPELINE.format(directory=str(self.directory), source=self.source, sink=self.sink))
        command = [sys.executable, "-m", "levada", "pipeline", "run", str(file)]
        command += ["--bootstrap-server", self.bootstrap, "--checkpoint", str(self.directory / "progress")]
        with (self.directory / "out").open("wb") as out, (self.directory / "err").open("wb") as err:
            environment = {**os.environ, MARK: self.mark}
            self.process = subprocess.Popen(command, stdout=out, stderr=err, start_new_session=True, env=environment)

    def has_begun(self, value: str) -> bool:
        assert self.process.poll() is None, self.said("out") + self.said("err")
        return (self.directory / f"begun-{value}").exists()

    def said(self, stream: str) -> str:
        return (self.directory / stream).read_text()

    def processes(self) -> list[int]:
        """All that are alive, the youngest first."""
        found = []
        for each in Path("/proc").glob("[0-9]*"):
            try:
                if f"{MARK}={self.mark}".encode() in (each / "environ").read_bytes():
                    found.append(int(each.name))
            except OSError:
                continue
        return sorted(found, reverse=True)

    def signal_all(self, number: int) -> None:
        """As systemd and a shutdown of the machine do."""
        for pid in self.processes():
            os.kill(pid, number)

    def signal_group(self, number: int) -> None:
        """As a terminal does."""
        os.killpg(self.process.pid, number)


@pytest.fixture
def start(bootstrap: str, new_topic: Callable[..., str], tmp_path: Path) -> Iterator[Callable[[], Started]]:
    begun: list[Started] = []

    def begin() -> Started:
        begun.append(Started(tmp_path, new_topic(), new_topic(), bootstrap))
        return begun[0]

    yield begin
    for each in begun:
        each.signal_all(signal.SIGKILL)
        each.process.wait()


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("number", "reach", "is_in_batch"),
    [
        (signal.SIGTERM, Started.signal_all, True),
        (signal.SIGINT, Started.signal_group, True),
        (signal.SIGTERM, Started.signal_group, False),
        (signal.SIGINT, Started.signal_all, False),
    ],
    ids=["SIGTERM to all in a batch", "SIGINT to the group in a batch", "SIGTERM to the group", "SIGINT to all"],
)
def test_a_signal_to_every_process_ends_the_pipeline_after_its_batch(
    start: Callable[[], Started], number: int, reach: Callable[[Started, int], None], is_in_batch: bool
) -> None:
    pipeline = start()
    with Producer(pipeline.bootstrap) as producer:
        producer.send(pipeline.source, b"first").result()
        wait_until(lambda: pipeline.has_begun("first"), 120)
        expected = [b"first"]
        if is_in_batch:
            expected.append(b"slow")
            producer.send(pipeline.source, b"slow").result()
            wait_until(lambda: pipeline.has_begun("slow"), 60)
    if not is_in_batch:
        wait_until(lambda: values(pipeline) == expected, 60)
        time.sleep(1)
    assert len(pipeline.processes()) > 2
    reach(pipeline, number)
    assert pipeline.process.wait(60) == 0, pipeline.said("out") + pipeline.said("err")
    assert values(pipeline) == expected, pipeline.said("out")
    assert pipeline.said("err") == ""
    batches = len(expected)
    last = pipeline.said("out").splitlines()[-1]
    assert last.startswith(f"levada: stopped; kept {batches} rows in {batches} batches, ")
    wait_until(lambda: pipeline.processes() == [], 20)


@pytest.mark.timeout(240)
def test_a_second_signal_ends_the_pipeline_in_its_batch_and_leaves_nothing(start: Callable[[], Started]) -> None:
    pipeline = start()
    with Producer(pipeline.bootstrap) as producer:
        producer.send(pipeline.source, b"slow").result()
    wait_until(lambda: pipeline.has_begun("slow"), 120)
    pipeline.signal_all(signal.SIGTERM)
    time.sleep(0.2)
    pipeline.signal_all(signal.SIGTERM)
    assert pipeline.process.wait(30) == 1
    assert pipeline.said("err").startswith("levada: stopped in the middle of a batch")
    assert values(pipeline) == []
    wait_until(lambda: pipeline.processes() == [], 20)


def values(pipeline: Started) -> list[bytes | None]:
    return [value for _, value in records(pipeline.bootstrap, pipeline.sink)]
