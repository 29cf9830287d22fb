"""A sink that prints rows, for people who try things."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from levada.spark.pipeline.sinks.batches import BatchSink, Control, MicroBatch, visible
from levada.spark.rows.problems import quoted

DEFAULT_ROWS = 20


@dataclass(frozen=True, slots=True)
class ConsoleSink(BatchSink):
    """At least once: a batch that is done again is printed again."""

    name: str
    rows: int = DEFAULT_ROWS

    modes: ClassVar[Sequence[str]] = ("append", "update")

    def problems(self, schema: StructType, query: str | None) -> list[str]:
        return []

    def write(self, frame: DataFrame, batch: MicroBatch, control: Control) -> None:
        shown = frame.select(*map(quoted, visible(frame.columns)))
        print(f"{self.name}, batch {batch.number}", flush=True)
        shown.show(self.rows, truncate=False)
