"""The sink with places where a test can have a process killed: the driver with all its processes, a broker, a task.

Tasks and commits run in processes of their own, so a plan of faults lies in a directory, where all of them find it.
"""

import json
import os
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from levada import Producer
from levada.spark.sink import commit
from levada.spark.sink.writers import BATCH_ID, TopicStreamWriter
from pyspark_levada import DefaultSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter
    from pyspark.sql.types import StructType

DIRECTORY = "LEVADA_TEST_FAULTS"
PLAN, BROKER = "plan.json", "broker.pid"
RETURN_SECONDS = 30.0
STEP_SECONDS = 0.02

PLANNING = "planning"
"""The process in which Spark plans all batches of a query; what counts there is how many it has planned."""
IN_TASK, HANDED_OVER, BEFORE_COMMIT, BEFORE_REQUEST, AFTER_REQUEST = (
    "in-task",
    "handed-over",
    "before-commit",
    "before-request",
    "after-request",
)
POINTS = (IN_TASK, HANDED_OVER, BEFORE_COMMIT, BEFORE_REQUEST, AFTER_REQUEST)
OF_QUERY = (PLANNING, BEFORE_COMMIT, BEFORE_REQUEST, AFTER_REQUEST)
"""Where a worker is the query's, not a task's: without it the query fails, and has to be started again."""
KILL_DRIVER, KILL_BROKER, KILL_WORKER, FAIL, LINGER = "kill-driver", "kill-broker", "kill-worker", "fail", "linger"


@dataclass(frozen=True, slots=True)
class Fault:
    """Happens once, in the first batch from `batch` on that comes to the point."""

    point: str
    action: str
    batch: int


def write_plan(directory: Path, faults: Iterable[Fault]) -> None:
    (directory / PLAN).write_text(json.dumps([asdict(fault) for fault in faults]))


def fired(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("fired-*"))


def failed_queries(directory: Path) -> int:
    """How many have failed for want of their worker."""
    return sum(name.endswith(f"-{point}-{KILL_WORKER}") for name in fired(directory) for point in OF_QUERY)


def strike(point: str, batch: int, *, attempt: int = 0) -> None:
    """If the plan wants something to happen here and now, it happens."""
    directory = Path(os.environ[DIRECTORY])
    for number, each in enumerate(json.loads((directory / PLAN).read_text())):
        fault = Fault(**each)
        if fault.point != point or batch < fault.batch or (fault.action in (FAIL, LINGER) and attempt > 0):
            continue
        name = f"fired-{number:03}-{fault.point}-{fault.action}"
        try:
            os.close(os.open(directory / name, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        act(fault.action, directory)


def act(action: str, directory: Path) -> None:
    if action == KILL_DRIVER:
        kill_session()
    elif action == KILL_BROKER:
        kill_broker(directory)
    elif action == KILL_WORKER:
        # One that has worked for other batches before, and whose driver lives on.
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == FAIL:
        raise RuntimeError("this attempt was to fail")
    else:
        time.sleep(3.0)


def kill_session() -> None:
    """SIGKILL to all processes that the test's driver has started: Spark, its executors, their Python workers."""
    own, session = os.getpid(), os.getsid(0)
    for pid in pids_of(session):
        if pid != own:
            os.kill(pid, signal.SIGKILL)
    os.kill(own, signal.SIGKILL)


def pids_of(session: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.getsid(int(entry.name)) == session:
                    found.append(int(entry.name))
            except (ProcessLookupError, PermissionError):
                continue
    return found


def kill_broker(directory: Path) -> None:
    """The test starts it again, under another pid."""
    pid_file = directory / BROKER
    pid = pid_file.read_text()
    os.kill(int(pid), signal.SIGKILL)
    (directory / "broker.killed").write_text(pid)


class FaultyProducer(Producer):
    """The driver's, which knows the moment of the decision."""

    batch = 0

    def commit_group(self, *arguments: Any, **named: Any) -> None:
        strike(BEFORE_REQUEST, self.batch)
        super().commit_group(*arguments, **named)
        strike(AFTER_REQUEST, self.batch)


class FaultyStreamWriter(TopicStreamWriter):
    """Stamps each record with its batch, and comes past all the points."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        batch, attempt = int(context.getLocalProperty(BATCH_ID) or 0), context.attemptNumber()

        def stamped() -> Iterator[pa.RecordBatch]:
            for rows in iterator:
                yield with_header(rows, "batch", str(batch).encode())
                strike(IN_TASK, batch, attempt=attempt)

        report = super().write(stamped())
        strike(HANDED_OVER, batch, attempt=attempt)
        return report

    def commit(self, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
        strike(BEFORE_COMMIT, batch_id)
        FaultyProducer.batch = batch_id
        commit.Producer = FaultyProducer  # type: ignore[attr-defined]
        super().commit(messages, batch_id)


class FaultySource(DefaultSource):
    planned = 0

    @classmethod
    def name(cls) -> str:
        return "levada-faults"

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "DataSourceStreamWriter":
        FaultySource.planned += 1
        strike(PLANNING, FaultySource.planned)
        return FaultyStreamWriter(self.options, schema)


def with_header(rows: pa.RecordBatch, key: str, value: bytes) -> pa.RecordBatch:
    count = rows.num_rows
    pairs = pa.StructArray.from_arrays(
        [pa.repeat(pa.scalar(key), count), pa.repeat(pa.scalar(value, pa.binary()), count)], ["key", "value"]
    )
    ends = pa.array(range(count + 1), pa.int32())
    return rows.append_column("headers", pa.ListArray.from_arrays(ends, pairs))
