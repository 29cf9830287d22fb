"""`levada pipeline run` and `check` before Spark, which takes ten seconds to start: what can be known to be wrong."""

import re
from pathlib import Path
from typing import Final

from levada.client.probing import faults_of
from levada.model.near_names import did_you_mean
from levada.spark.defaults import CONNECT
from levada.spark.paths import local_path
from levada.spark.pipeline.definition import Definition, PipelinePart, definition_of
from levada.spark.pipeline.options import PipelineOptions, bootstrap_of, pipeline_name
from levada.spark.pipeline.problems import PipelineError, Problem, one_line, refused
from levada.spark.pipeline.status import refuse_second
from levada.spark.pipeline.topics import Findings, check_topics

PROBE_SECONDS: Final = 2.0

TYPES: Final = (
    "array", "bigint", "binary", "boolean", "byte", "char", "character", "date", "dec", "decimal", "double", "float",
    "geography", "geometry", "int", "integer", "interval", "long", "map", "null", "numeric", "real", "short",
    "smallint", "string", "struct", "time", "timestamp", "timestamp_ltz", "timestamp_ntz", "tinyint",
    "varchar", "variant", "void",
)  # fmt: skip
"""What Spark's short form of a schema calls its types."""
FIELD: Final = re.compile(r"(?P<name>\w+|`[^`]+`)(?:\s*:\s*|\s+)(?P<type>[A-Za-z_]\w*)(?P<rest>.*)", re.DOTALL)
USES_TOPICS: Final = re.compile(r"\.read\(|\btopic\b|dead_letters")


def check_file(options: PipelineOptions) -> int:
    """Print each problem on a line; 0 if there is none."""
    _refuse_connect(options)
    definition, problems = definition_of(options.file)
    problems = problems or preflight(definition, bootstrap_of(options, definition), options.file)
    if problems:
        return refused(problems)
    # Spark is loaded only now: that alone takes seconds.
    from levada.spark.pipeline import command

    return command.check_file(options, definition)


def run_file(options: PipelineOptions) -> int:
    """Check, then run until the end, a signal or a failure."""
    _refuse_connect(options)
    definition, problems = definition_of(options.file)
    if not problems and not (options.checkpoint or definition.checkpoint):
        problems = [Problem("checkpoint", "is missing: give --checkpoint DIR, where the progress is kept")]
    checkpoint = options.checkpoint or definition.checkpoint
    place = local_path(checkpoint) if checkpoint is not None else None
    if not problems and place is not None:
        refuse_second(str(place), pipeline_name(options, definition), [sink.name for sink in definition.sinks])
    problems = problems or preflight(definition, bootstrap_of(options, definition), options.file)
    if problems:
        return refused(problems)
    from levada.spark.pipeline import command

    return command.run_file(options, definition)


def preflight(definition: Definition, bootstrap: str, file: Path) -> list[Problem]:
    """Schemas that no Spark would take, a registry or a broker that does not answer, topics that are not there.

    A Python file says nothing of its topics before it runs; if it seems to have some, the broker has to be there.
    """
    problems = [problem for part in (*definition.sources, *definition.sinks) for problem in _schema_problems(part)]
    problems += _registry_problems(definition)
    read = {part.value: part.path for part in definition.sources if part.kind == "topic"}
    written = {part.value: part.path for part in definition.sinks if part.kind == "topic"}
    uses_topics = read or written or any(part.kind == "routed" for part in definition.sinks)
    if not uses_topics and not (file.suffix == ".py" and USES_TOPICS.search(file.read_text(errors="replace"))):
        return problems
    faults = faults_of(bootstrap, PROBE_SECONDS)
    if faults:
        return [*problems, Problem("bootstrap", f"no Kafka broker answers: {'; '.join(faults)}")]
    findings = Findings()
    check_topics(bootstrap, read, written, findings)
    return [*problems, *findings.problems]


def _refuse_connect(options: PipelineOptions) -> None:
    if options.master.startswith(CONNECT):
        raise PipelineError(
            "a pipeline asks more of Spark than Spark Connect gives: name a master such as spark://host:7077, or none; "
            "levada.spark.session takes sc://"
        )


def _schema_problems(part: PipelinePart) -> list[Problem]:
    schema, kind = part.options.get("schema"), part.options.get("format", "json")
    if not isinstance(schema, str) or part.kind == "files" or kind == "protobuf":
        return []
    fault = _avro_fault(schema) if kind == "avro" else type_fault(schema)
    return [] if fault is None else [Problem(f"{part.path}.schema", fault)]


def _registry_problems(definition: Definition) -> list[Problem]:
    parts = (*definition.sources, *definition.sinks)
    is_used = any("registry" in part.options or part.options.get("format") == "protobuf" for part in parts)
    if definition.registry is None and not is_used:
        return []
    # Loaded only where there is a registry.
    from levada.spark.pipeline.registries import registry_problems

    return registry_problems(definition)


def _avro_fault(schema: str) -> str | None:
    from levada.spark.rows.avro_schemas import avro_schema
    from levada.spark.rows.problems import RowsError

    try:
        avro_schema(schema)
    except RowsError as error:
        return one_line(str(error))
    return None


def type_fault(schema: str) -> str | None:
    """A type that Spark does not know; None where all are known, and where only Spark can tell.

    >>> type_fault("id lng, amount double")
    "unknown type 'lng' of field 'id'; did you mean long?"
    >>> type_fault("id long not null, tags array<string>, price decimal(10, 2)")
    """
    for text in _fields(schema):
        found = FIELD.fullmatch(text)
        if found is None:
            return None
        if found["type"].lower() not in TYPES:
            # Where none is near it may be one of a younger Spark, which has the last word.
            advice = did_you_mean(found["type"].lower(), TYPES)
            return f"unknown type {found['type']!r} of field {found['name']!r}{advice}" if advice else None
    return None


def _fields(schema: str) -> list[str]:
    """The fields of a short form; commas inside of types and of quotes do not part them."""
    fields, depth, quote = [""], 0, ""
    for letter in schema:
        if quote or letter in "'\"`":
            quote = "" if letter == quote else quote or letter
        else:
            depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0 and not quote:
            fields.append("")
        else:
            fields[-1] += letter
    return [field.strip() for field in fields]
