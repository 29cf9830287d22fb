"""What a pipeline writes and where to: sinks by the words that name them in a file."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

from pyspark.sql import DataFrame

from levada.spark.pipeline.definition import SINK_VALUES, SINKS, PipelinePart, part_of
from levada.spark.pipeline.problems import PipelineError, Problem
from levada.spark.pipeline.sinks import BatchSink, ConsoleSink, DatabaseSink, DeltaSink, ParquetSink
from levada.spark.pipeline.sinks.console import DEFAULT_ROWS
from levada.spark.pipeline.sinks.database import DEFAULT_RETRY_S
from levada.spark.pipeline.values import Value
from levada.spark.rows import Rows
from levada.spark.rows.registry import Registry


@dataclass(frozen=True, slots=True)
class TopicSink:
    """A topic, or those that `route` gave to the rows, or the dead letters alone."""

    topic: str | None
    key: str | None = None
    format: str = "json"
    schema: str | None = None
    delivery: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    is_dead_letters: bool = False
    registry: "bool | str | Registry | None" = field(default=None, repr=False)
    """As the sink says it; an address may have a password in it."""
    subject: str | None = None
    message: str | None = None

    modes: ClassVar[Sequence[str]] = ("append", "update")


@dataclass(frozen=True, slots=True)
class Write:
    """One query: rows and their sink. `where` is its path in the file."""

    name: str
    where: str
    rows: Rows | DataFrame
    sink: TopicSink | BatchSink
    mode: str | None = None

    @property
    def frame(self) -> DataFrame:
        return self.rows.frame if isinstance(self.rows, Rows) else self.rows


def write_to(name: str, where: str, rows: Rows | DataFrame, options: Mapping[str, Value]) -> Write:
    """A write by the keys that a file has for a sink; PipelineError for the first that cannot be used."""
    problems: list[Problem] = []
    part = part_of("sinks", name, options, SINKS, SINK_VALUES, problems)
    if problems or part is None:
        raise PipelineError(str(problems[0]))
    return write_of(part, where, rows)


def write_of(part: PipelinePart, where: str, rows: Rows | DataFrame) -> Write:
    return Write(part.name, where, rows, MAKERS[part.kind](part), part.options.get("mode"))


def _topic(part: PipelinePart) -> TopicSink:
    options = part.options
    return TopicSink(
        part.value if part.kind == "topic" else None,
        options.get("key"),
        options.get("format", "json"),
        options.get("schema"),
        options.get("delivery"),
        options.get("options", {}),
        registry=options.get("registry"),
        subject=options.get("subject"),
        message=options.get("message"),
    )


def _parquet(part: PipelinePart) -> ParquetSink:
    return ParquetSink(part.value, tuple(part.options.get("partition_by", ())))


def _delta(part: PipelinePart) -> DeltaSink:
    is_complete = part.options.get("mode") == "complete"
    return DeltaSink(part.value, tuple(part.options.get("partition_by", ())), is_complete)


def _database(part: PipelinePart) -> DatabaseSink:
    options = part.options
    return DatabaseSink(
        part.value,
        options["table"],
        tuple(options["key"]),
        options.get("order"),
        options.get("delete_when"),
        options.get("create", False),
        options.get("retry_for", DEFAULT_RETRY_S),
        options.get("mode") == "complete",
    )


def _console(part: PipelinePart) -> ConsoleSink:
    return ConsoleSink(part.name, part.options.get("rows", DEFAULT_ROWS))


MAKERS: Final[Mapping[str, Callable[[PipelinePart], TopicSink | BatchSink]]] = {
    "topic": _topic,
    "routed": _topic,
    "parquet": _parquet,
    "delta": _delta,
    "database": _database,
    "console": _console,
}


def checkpoint_of(directory: str, name: str) -> str:
    """Each query has a place of its own."""
    return str(Path(directory) / name) if "://" not in directory else f"{directory.rstrip('/')}/{name}"
