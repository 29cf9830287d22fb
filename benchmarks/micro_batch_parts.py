"""What tasks and commits of a micro-batch do, timed in the Python workers of Spark in which they run."""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import InputPartition, WriterCommitMessage

from levada.client.blocking import Producer
from levada.spark.sink.writers import TopicStreamWriter
from levada.spark.source.stream import TopicStreamReader
from pyspark_levada import DefaultSource

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter
    from pyspark.sql.types import StructType

DIRECTORY: Final = "LEVADA_BENCHMARK_PARTS"
"""In the environment: where workers note their times."""

SOURCE, WRITE, TRANSACTION, COMMIT = "source", "write", "transaction", "sink commit"
PARTS: Final = (SOURCE, WRITE, TRANSACTION, COMMIT)
"""`write` is all that a task's sink does but for its waits for rows; `transaction` is a part of it."""
OF_TRANSACTION: Final = ("init_transactions", "begin_transaction", "hand_over_transaction")

_spent: dict[str, float] = defaultdict(float)


def note(part: str, seconds: float) -> None:
    """Lines of many processes: each is one write."""
    path = Path(os.environ[DIRECTORY], part.replace(" ", "-"))
    with path.open("ab", buffering=0) as file:
        file.write(b"%f\n" % (1_000 * seconds))


def noted(directory: Path, count: int) -> dict[str, list[float]]:
    """Milliseconds of each part, the last so many times."""
    lines = {part: (directory / part.replace(" ", "-")).read_text().splitlines() for part in PARTS}
    return {part: [float(line) for line in found[-count:]] for part, found in lines.items()}


class TimedReader(TopicStreamReader):
    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        spent = 0.0
        began = time.perf_counter()
        rows = super().read(partition)
        for batch in rows:
            spent += time.perf_counter() - began
            yield batch
            began = time.perf_counter()
        note(SOURCE, spent + time.perf_counter() - began)


class TimedWriter(TopicStreamWriter):
    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        _time_transactions()
        _spent.clear()
        began, waited = time.perf_counter(), 0.0

        def rows() -> "Iterator[pa.RecordBatch]":
            nonlocal waited
            while True:
                asked = time.perf_counter()
                batch = next(iterator, None)
                waited += time.perf_counter() - asked
                if batch is None:
                    return
                yield batch

        report = super().write(rows())
        note(WRITE, time.perf_counter() - began - waited)
        note(TRANSACTION, sum(_spent.values()))
        return report

    def commit(self, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
        began = time.perf_counter()
        super().commit(messages, batch_id)
        note(COMMIT, time.perf_counter() - began)


class TimedSource(DefaultSource):
    @classmethod
    def name(cls) -> str:
        return "levada-timed"

    def streamReader(self, schema: "StructType") -> "DataSourceStreamReader":  # noqa: N802
        return TimedReader(self.options)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "DataSourceStreamWriter":  # noqa: N802
        return TimedWriter(self.options, schema)


def _time_transactions(names: Sequence[str] = OF_TRANSACTION) -> None:
    """Once in a worker: its producers' calls count what they take."""
    for name in names:
        method = getattr(Producer, name)
        if not hasattr(method, "is_timed"):
            setattr(Producer, name, _timed(name, method))


def _timed(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        began = time.perf_counter()
        try:
            return method(*arguments, **named)
        finally:
            _spent[name] += time.perf_counter() - began

    vars(call)["is_timed"] = True
    return call
