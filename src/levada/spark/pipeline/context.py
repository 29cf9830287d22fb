"""What a pipeline is built with: sources, steps and writes; nothing starts before all of it is known."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict

from levada.spark import rows as steps
from levada.spark.pipeline.problems import PipelineError, Problem, unknown
from levada.spark.pipeline.registries import chosen_registry
from levada.spark.pipeline.sources import read_files, read_table
from levada.spark.pipeline.writes import TopicSink, Write, write_to
from levada.spark.rows import Rows
from levada.spark.rows.reading import as_option
from levada.spark.rows.registry import Registry, SchemaSource, subject_of
from levada.spark.rows.rules import Rule
from levada.spark.sessions import bootstrap_of
from levada.spark.source.settings import stream_settings

READ_ARGUMENTS: Final = ("format", "dead_letters", "tombstones", "stream", "registry", "subject", "message")
"""Of `read` itself; the others are options of the data source."""

OWN_GROUP: Final = frozenset(("kafka.group.id", "groupidprefix", "commitoffsets"))
"""Options of a source that has a group of its own."""

AnyRows = TypeVar("AnyRows", bound=Rows | DataFrame)
"""What a step takes, it gives back."""


@dataclass(slots=True)
class RowOrigin:
    """How rows came to be: a read, and the steps since."""

    name: str
    rows: Rows
    is_carried_on: bool = False
    """Whether another step has these rows, and their rejected ones with them."""


class Context:
    """Given to a pipeline's function.

    `read`, `files` and `table` are its sources, `sql` and the others its steps, `write` its sinks. Rejected rows go
    with the good ones to `write`; where only good ones go on, as into SQL, a query of its own writes the others to the
    dead-letter topic.
    """

    def __init__(self, spark: SparkSession, bootstrap: str | None = None, registry: Registry | None = None) -> None:
        self.spark = spark
        self.bootstrap = bootstrap_of(spark, bootstrap)
        self.registry = registry
        """The file's own."""
        self.schema_sources: list[SchemaSource] = []
        """Of what is read."""
        self.topics: dict[str, str] = {}
        """Topics that are read, and where the file says so."""
        self.routed_topics: set[str] = set()
        """What `route` can give to rows."""
        self.writes: list[Write] = []
        self._origins: dict[int, RowOrigin] = {}
        self._lettered: set[int] = set()
        """The numbers of the steps whose rejected rows a write has."""

    # Sources

    def read(self, topic: str | Iterable[str], schema: Any = None, *, name: str | None = None, **options: Any) -> Rows:
        """As `levada.spark.read`, but from the beginning of the topics unless it is told otherwise.

        `registry=True` is the file's own.
        """
        topics = [topic] if isinstance(topic, str) else list(topic)
        given = {option.lower() for option in options}
        if not any(option.startswith("starting") for option in given):
            options["startingOffsets"] = "earliest"
        if not given & OWN_GROUP:
            # The pipeline tells of each query by a group that has its name.
            options["commitOffsets"] = False
        registry = chosen_registry(options.pop("registry", None), self.registry, options)
        if registry is not None:
            options["registry"] = registry
            subject = options.get("subject") or (subject_of(topics[0]) if len(topics) == 1 else None)
            self.schema_sources.append(SchemaSource(registry, subject))
        self._refuse_options(",".join(topics), options)
        rows = steps.read(topics, schema, spark=self.spark, bootstrap=self.bootstrap, **options)
        chosen = name or "-".join(topics)
        for each in topics:
            self.topics.setdefault(each, f"sources.{chosen}")
        return self._keep(RowOrigin(chosen, rows))

    def files(self, directory: str, *, name: str | None = None, **options: Any) -> Rows | DataFrame:
        """Files that appear in a directory: `format`, `schema`, `dead_letters`, `max_files`, `options`."""
        found = read_files(self.spark, directory, **options)
        return self._keep(RowOrigin(name or directory, found)) if isinstance(found, Rows) else found

    def table(self, database: str, table: str, **options: Any) -> DataFrame:
        """The changes of a database's table: `cursor`, `schema`, `max_rows`, `poll_s`, `settle_s`."""
        return read_table(self.spark, database, table, **options)

    # Steps

    def sql(self, query: str, **inputs: Rows | DataFrame) -> DataFrame:
        """SQL over the inputs, by their names; of rows that is the good ones."""
        for name, given in inputs.items():
            (given.good if isinstance(given, Rows) else given).createOrReplaceTempView(name)
        try:
            return self.spark.sql(query)
        except PySparkException as error:
            if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND":
                missing = (error.getMessageParameters() or {}).get("relationName", "").strip("`")
                raise PipelineError(unknown("source or step", missing, list(inputs))) from None
            raise
        finally:
            for name in inputs:
                self.spark.catalog.dropTempView(name)

    def quality(self, rows: AnyRows, rules: Iterable[Rule], **options: Any) -> AnyRows:
        return self.carry_on(rows, _step(steps.quality)(rows, rules, **options))

    def expire_after(self, rows: AnyRows, ttl: Any, **options: Any) -> AnyRows:
        return self.carry_on(rows, _step(steps.expire_after)(rows, ttl, **options))

    def deduplicate(self, rows: AnyRows, keys: Any, within: Any, **options: Any) -> AnyRows:
        return self.carry_on(rows, _step(steps.deduplicate)(rows, keys, within, **options))

    def route(self, rows: AnyRows, by: Any, topics: Mapping[Any, str], **options: Any) -> AnyRows:
        self.routed_topics.update(topics.values())
        return self.carry_on(rows, _step(steps.route)(rows, by, topics, **options))

    def carry_on(self, before: Rows | DataFrame, after: AnyRows, *, is_repeatable: bool = True) -> AnyRows:
        """`after` as rows that have all rejected rows of `before` among them, for steps of your own."""
        origin = self._origins.get(id(before))
        if not isinstance(after, Rows) or origin is None or after is before:
            return after
        origin.is_carried_on = True
        found = _carried_on(origin.rows, after, is_repeatable)
        if found is not after and id(after) in self._origins:
            self._origins[id(after)].is_carried_on = True
        if id(found) not in self._origins:
            self._keep(RowOrigin(origin.name, found))
        # It is the same kind of thing as `after`, which Python's types cannot say.
        carried: Any = found
        return carried  # type: ignore[no-any-return]

    # Sinks

    def write(self, rows: Rows | DataFrame, *, name: str | None = None, **sink: Any) -> None:
        """Write to one sink, named by the keys that a file has: `topic="totals", key="id"`, `parquet="out"`,
        `database="sqlite:///a.db", table="users", key=["id"]`, `console=True`."""
        chosen = name or f"write-{len(self.writes) + 1}"
        self.add(write_to(chosen, f"sinks.{chosen}", rows, sink))

    def add(self, write: Write) -> None:
        if any(write.name == other.name for other in self.writes):
            raise PipelineError(_same_name(write.name))
        if not write.frame.isStreaming:
            raise PipelineError(f"{write.where}: its rows are not a stream; a pipeline's sources are streams")
        if isinstance(write.sink, TopicSink) and write.sink.registry is not None:
            write = replace(write, sink=self._with_registry(write.sink))
        if isinstance(write.rows, Rows):
            write = self._with_letters_once(write, write.rows)
        self.writes.append(write)

    def left_behind(self) -> tuple[list[Write], list[Problem]]:
        """Writes for rejected rows that no other write has, and what makes such a write impossible."""
        writes: list[Write] = []
        problems: list[Problem] = []
        lettered = set(self._lettered)
        for origin in self._origins.values():
            if origin.is_carried_on or not _numbers(origin.rows) - lettered:
                continue
            if not origin.rows.is_repeatable:
                # Another query looks at another time: rows could be too old for the one and young enough for the other.
                text = "rows that expire or repeat would be lost: send the step's result to a sink, not into SQL"
                problems.append(Problem(f"sources.{origin.name}", text))
                continue
            name, where = f"{origin.name}-dead-letters", f"sources.{origin.name}.dead_letters"
            if any(name == other.name for other in self.writes):
                problems.append(Problem(where, _same_name(name)))
                continue
            same = sum(other.where == where for other in writes)
            rows = origin.rows.without_rejected_by(_numbers(origin.rows) & lettered)
            lettered |= _numbers(origin.rows)
            sink = TopicSink(None, is_dead_letters=True)
            writes.append(Write(f"{name}-{same + 1}" if same else name, where, rows, sink))
        return writes, problems

    def _refuse_options(self, topic: str, options: Mapping[str, Any]) -> None:
        """Those of the data source, which looks at them only when a query starts."""
        given = {name: as_option(value) for name, value in options.items() if name not in READ_ARGUMENTS}
        stream_settings(CaseInsensitiveDict({**given, "subscribe": topic, "kafka.bootstrap.servers": self.bootstrap}))

    def _with_registry(self, sink: TopicSink) -> TopicSink:
        options = dict(sink.options)
        registry = chosen_registry(sink.registry, self.registry, options)
        return replace(sink, registry=registry, options=options)

    def _with_letters_once(self, write: Write, rows: Rows) -> Write:
        """Of what a step has rejected, the first write has the dead letters; those of a step that may reject other rows
        the next time are in every write."""
        written = {step.number for step in rows.steps if step.is_repeatable and step.number in self._lettered}
        self._lettered |= _numbers(rows)
        if not written:
            return write
        # Only as `Rows` has a write dead letters of its own, of what does not fit its schema.
        may_reject = isinstance(write.sink, TopicSink) and (write.sink.format == "avro" or bool(write.sink.registry))
        if may_reject or written != _numbers(rows):
            return replace(write, rows=rows.without_rejected_by(written))
        return replace(write, rows=rows.good)

    def _keep(self, origin: RowOrigin) -> Rows:
        # The origin holds the rows, so that their id stays theirs.
        self._origins[id(origin.rows)] = origin
        return origin.rows


def _step(function: Any) -> Callable[..., AnyRows]:
    """Its type says that rows give rows and frames give frames; ours are either, which Python's types cannot say."""
    found: Callable[..., AnyRows] = function
    return found


def _same_name(name: str) -> str:
    return f"two sinks are called {name!r}: names keep their checkpoints apart"


def _numbers(rows: Rows) -> set[int]:
    return {step.number for step in rows.steps}


def _carried_on(before: Rows, after: Rows, is_repeatable: bool) -> Rows:
    """`after` with the steps of `before`; the same object if it knows them."""
    own = [step for step in after.steps if step not in before.steps]
    if not is_repeatable:
        own = [replace(step, is_repeatable=False) for step in own]
    found = (*before.steps, *own)
    stays_repeatable = is_repeatable and before.is_repeatable and after.is_repeatable
    if set(found) == set(after.steps) and stays_repeatable == after.is_repeatable:
        return after
    return replace(after, steps=found, is_repeatable=stays_repeatable)
