"""What sinks that take one micro-batch at a time have in common."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from levada.spark.pipeline.problems import PipelineError
from levada.spark.waits import waits


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One micro-batch: `query` is Spark's id of the query, which a restart from the checkpoint keeps."""

    query: str
    number: int


class Stopped(Exception):
    """The pipeline is to stop while a sink waits; the batch is done again after the next start."""


@dataclass(frozen=True, slots=True)
class Control:
    """How a running pipeline and its sinks talk: the one says stop, the others what they wait for."""

    stopping: threading.Event = field(default_factory=threading.Event)
    report: Callable[[str], None] = lambda _: None

    def waits(self, limit_s: float) -> Iterator[None]:
        """Ever longer waits, until the time is up; Stopped if the pipeline is to stop meanwhile."""
        return waits(limit_s, self._pause)

    def _pause(self, seconds: float) -> None:
        if self.stopping.wait(seconds):
            raise Stopped


class BatchSink(ABC):
    """Writes a micro-batch exactly once, however often it is handed over."""

    modes: ClassVar[Sequence[str]] = ("append",)
    """Output modes, in the order in which they are tried if none is asked for."""

    @abstractmethod
    def problems(self, schema: StructType, query: str | None) -> list[str]:
        """What would make it fail; `query` is the id in the checkpoint, if there is one."""

    @abstractmethod
    def write(self, frame: DataFrame, batch: MicroBatch, control: Control) -> None: ...


def is_written(last: int | None, batch: MicroBatch) -> bool:
    """Whether the output has the batch, by the last one that it has; PipelineError if that is a later one.

    Spark never goes back by more than one batch: this is an older copy of the checkpoint, whose batches need not be
    those that were written, or a driver that slept while another went on.
    """
    if last is not None and last > batch.number:
        raise PipelineError(
            f"batch {last} of this query is written, and Spark is at batch {batch.number} again: the checkpoint is "
            "older than the output, and its batches may not be those written; begin with a new checkpoint"
        )
    return last == batch.number


def visible(names: Sequence[str]) -> list[str]:
    """Columns that are written: not those of our own, whose names begin with an underscore."""
    return [name for name in names if not name.startswith("_")]
