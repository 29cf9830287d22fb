"""Schema registries of a pipeline: which one a source or a sink has, what is wrong with it, whether it is away."""

import threading
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

from levada.spark.pipeline.definition import Definition, PipelinePart
from levada.spark.pipeline.problems import PipelineError, Problem, one_line
from levada.spark.rows.problems import RowsError
from levada.spark.rows.registry import Registry, SchemaSource, reading_of, registry_of, schema_source, subject_of
from levada.spark.rows.registry.json_schemas import is_json_schema
from levada.spark.rows.registry.requests import RegistryAway
from levada.spark.rows.registry.subjects import is_there
from levada.spark.rows.registry.writing import check_writable

PROBE_SECONDS: Final = 5.0
LOOK_S: Final = 5.0
OPTIONS: Final = ("registry_user", "registry_password", "registry_ca", "registry_wait")


class Notes(Protocol):
    """What queries wait for, by their names."""

    notes: dict[str, str]

    def note(self, name: str, text: str) -> None: ...


def registry_of_file(definition: Definition) -> Registry | None:
    """The one at the top of the file; RowsError if it is none."""
    options = {name: getattr(definition, name) for name in OPTIONS if getattr(definition, name) is not None}
    if definition.registry is None:
        if options:
            raise RowsError(f"{next(iter(options))} is for a schema registry; name that as well: registry")
        return None
    if "registry_ca" in options:
        # Beside the file, wherever it is started from.
        options["registry_ca"] = str(definition.directory / Path(options["registry_ca"]))
    return registry_of(definition.registry, options)


def chosen_registry(
    given: "bool | str | Registry | None", of_file: Registry | None, options: MutableMapping[str, Any]
) -> Registry | None:
    """What a source or a sink says of its registry; takes the options that are about it."""
    if given is None or given is False:
        return None
    if given is True:
        if of_file is None:
            raise PipelineError("registry: true is the file's own, which has none: name it at the top, registry: URL")
        return of_file
    taken = {name: options.pop(name) for name in OPTIONS if name in options}
    return registry_of(given, taken)


def registry_problems(definition: Definition) -> list[Problem]:
    """A registry that does not answer, a subject that is not there, a schema that cannot be read or registered."""
    try:
        of_file = registry_of_file(definition)
    except RowsError as error:
        return [Problem("registry", one_line(str(error)))]
    problems: list[Problem] = []
    away: set[Registry] = set()
    for part in (*definition.sources, *definition.sinks):
        if part.kind not in ("topic", "routed"):
            continue
        try:
            source = _source_of(part, of_file)
            if source is None or source.registry in away:
                continue
            try:
                _check(part, source)
            except RegistryAway as error:
                away.add(source.registry)
                where = "registry" if source.registry == of_file else f"{part.path}.registry"
                problems.append(Problem(where, one_line(str(error))))
        except (RowsError, PipelineError) as error:
            problems.append(Problem(part.path, one_line(str(error))))
    return problems


class RegistryWatch:
    """Says of a registry that is away, while queries run: Spark's workers, which wait for it, cannot say so here."""

    def __init__(self, sources: Collection[SchemaSource], queries: Sequence[str], notes: Notes) -> None:
        self._sources = {source.registry: source for source in sources if source.subject is not None}
        self._queries = queries
        self._notes = notes
        self._said = ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="registry-watch", daemon=True)

    def __enter__(self) -> Self:
        if self._sources:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_S):
            self._tell("; ".join(filter(None, map(_absence, self._sources.values()))))

    def _tell(self, text: str) -> None:
        for name in self._queries:
            # What a sink waits for is its own to say.
            if self._notes.notes.get(name, "") in ("", self._said):
                self._notes.note(name, text)
        self._said = text


def _absence(source: SchemaSource) -> str:
    try:
        is_there(source.registry, source.named_subject(), PROBE_SECONDS)
    except RegistryAway as error:
        return f"values may wait for the schema registry: {error}"
    except RowsError:
        pass  # It answers; what it refuses is the query's to say.
    return ""


def _source_of(part: PipelinePart, of_file: Registry | None) -> SchemaSource | None:
    options: dict[str, Any] = dict(part.options.get("options", {}))
    registry = chosen_registry(part.options.get("registry"), of_file, options)
    subject = part.options.get("subject")
    if subject is None and registry is not None and part.kind == "topic":
        subject = subject_of(part.value)
    return schema_source(registry, subject, part.options.get("message"), options)


def _check(part: PipelinePart, source: SchemaSource) -> None:
    options: Mapping[str, Any] = part.options
    format, schema = options.get("format", "json"), options.get("schema")
    if part.path.startswith("sinks."):
        check_writable(source, format, schema, PROBE_SECONDS)
    elif format == "json" and schema is not None and not is_json_schema(schema):
        # Its short form is for Spark to read; whether the registry is there is all that is asked.
        is_there(source.registry, source.named_subject(), PROBE_SECONDS)
    else:
        reading_of(source, format, schema, PROBE_SECONDS)
