"""A pipeline's file made into sources, steps and writes of Spark, without starting any."""

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pyspark import cloudpickle
from pyspark.sql import DataFrame

from levada.spark.pipeline.context import Context
from levada.spark.pipeline.definition import Definition, PipelinePart
from levada.spark.pipeline.failure import cause_of
from levada.spark.pipeline.problems import PipelineError, Problem, one_line, unknown
from levada.spark.pipeline.rules import rules_of
from levada.spark.pipeline.sources.files import DEFAULT_MAX_FILES
from levada.spark.pipeline.sources.table import DEFAULT_MAX_ROWS, DEFAULT_POLL_S
from levada.spark.pipeline.writes import write_of
from levada.spark.rows import Rows

FUNCTION: Final = "pipeline"
"""What the function in a Python file is called."""

TOPIC_KEYS: Final = ("format", "dead_letters", "tombstones", "registry", "subject", "message")
"""Of a source, as `read` has them too."""

Built = dict[str, Rows | DataFrame]
"""By the names of sources and steps."""


def build(definition: Definition, context: Context) -> list[Problem]:
    """Add what a YAML file says to the context; parts that cannot be built become problems, and others go on."""
    built: Built = {}
    problems: list[Problem] = []
    missing: set[str] = set()
    for part in (*definition.sources, *definition.steps):
        if missing & set(_inputs(part, [*built, *missing])):
            # What it builds on has a problem of its own.
            missing.add(part.name)
            continue
        try:
            found = _BUILDERS[part.path.partition(".")[0], part.kind](part, built, context, definition.directory)
            built[part.name] = _with_watermark(part, found, context)
        except Exception as error:
            problems.append(Problem(part.path, cause_of(error)))
            missing.add(part.name)
    for sink in definition.sinks:
        name = sink.input or next(iter(built), "")
        if name not in built:
            continue
        try:
            context.add(write_of(sink, sink.path, built[name]))
        except PipelineError as error:
            problems.append(Problem(sink.path, str(error)))
    return problems


def build_from_python(path: Path, context: Context) -> list[Problem]:
    """Call the file's function; what it raises is a problem, with its line."""
    try:
        function = function_of(f"{path}:{FUNCTION}", Path())
        function(context)
    except PipelineError as error:
        return [Problem("", str(error))]
    except Exception as error:
        return [Problem(_place(path, error), one_line(cause_of(error) or type(error).__name__))]
    return [] if context.writes else [Problem(str(path), f"{FUNCTION}(context) writes nothing: call context.write")]


def function_of(name: str, directory: Path) -> Callable[..., Any]:
    """`module:function`, or `file.py:function` beside the pipeline's own file."""
    place, colon, attribute = name.rpartition(":")
    if not colon:
        raise PipelineError(f"{name!r} must be module:function or file.py:function")
    module = _file_module(directory / place) if place.endswith(".py") else importlib.import_module(place)
    function = getattr(module, attribute, None)
    if not callable(function):
        known = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        raise PipelineError(f"{place}: {unknown('function', attribute, known)}")
    found: Callable[..., Any] = function
    return found


def _file_module(path: Path) -> ModuleType:
    if not path.is_file():
        raise PipelineError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(f"levada_pipeline_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    # Executors cannot import it: its functions are sent to them as they are.
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return module


def _place(path: Path, error: Exception) -> str:
    """The last line of the user's own file that led to it."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    if isinstance(error, SyntaxError) and error.lineno:
        lines.append(error.lineno)
    return f"{path}:{lines[-1]}" if lines else str(path)


def _inputs(part: PipelinePart, known: list[str]) -> list[str]:
    if part.kind == "sql":
        return [name for name in known if name in part.value]
    return [*([part.input] if part.input else []), *part.options.get("inputs", ())]


def _with_watermark(part: PipelinePart, found: Rows | DataFrame, context: Context) -> Rows | DataFrame:
    for column, delay in part.options.get("watermark", {}).items():
        if isinstance(found, Rows):
            before = found
            found = context.carry_on(before, before.with_frame(before.frame.withWatermark(column, delay)))
        else:
            found = found.withWatermark(column, delay)
    return found


def _topic(part: PipelinePart, built: Built, context: Context, directory: Path) -> Rows:
    options = part.options
    reading = {key: options[key] for key in TOPIC_KEYS if key in options}
    return context.read(part.value, options.get("schema"), name=part.name, **reading, **options.get("options", {}))


def _files(part: PipelinePart, built: Built, context: Context, directory: Path) -> Rows | DataFrame:
    options = part.options
    return context.files(
        part.value,
        name=part.name,
        format=options.get("format", "text"),
        schema=options.get("schema"),
        dead_letters=options.get("dead_letters"),
        max_files=options.get("max_files", DEFAULT_MAX_FILES),
        options=options.get("options"),
    )


def _table(part: PipelinePart, built: Built, context: Context, directory: Path) -> DataFrame:
    options = part.options
    return context.table(
        options["database"],
        part.value,
        cursor=options["cursor"],
        schema=options.get("schema"),
        max_rows=options.get("max_rows", DEFAULT_MAX_ROWS),
        poll_s=options.get("poll", DEFAULT_POLL_S),
        settle_s=options.get("settle", 0.0),
    )


def _sql(part: PipelinePart, built: Built, context: Context, directory: Path) -> DataFrame:
    return context.sql(part.value, **built)


def _python(part: PipelinePart, built: Built, context: Context, directory: Path) -> Rows | DataFrame:
    inputs = [built[name] for name in part.options.get("inputs", ())]
    found = function_of(part.value, directory)(context, *inputs)
    if not isinstance(found, Rows | DataFrame):
        raise PipelineError(f"{part.value} must return rows or a DataFrame, not {type(found).__name__}")
    for given in inputs:
        found = context.carry_on(given, found)
    return found


def _quality(part: PipelinePart, built: Built, context: Context, directory: Path) -> Rows | DataFrame:
    return context.quality(built[part.options["from"]], rules_of(part.value))


def _expire_after(part: PipelinePart, built: Built, context: Context, directory: Path) -> Rows | DataFrame:
    return context.expire_after(built[part.options["from"]], part.value, **_given(part, "timestamp"))


def _deduplicate(part: PipelinePart, built: Built, context: Context, directory: Path) -> Rows | DataFrame:
    options = part.options
    return context.deduplicate(built[options["from"]], part.value, options["within"], **_given(part, "timestamp"))


def _route(part: PipelinePart, built: Built, context: Context, directory: Path) -> Rows | DataFrame:
    options = part.options
    return context.route(built[options["from"]], part.value, options["topics"], **_given(part, "default"))


def _given(part: PipelinePart, *names: str) -> dict[str, Any]:
    return {name: part.options[name] for name in names if name in part.options}


_BUILDERS: Final[Mapping[tuple[str, str], Callable[[PipelinePart, Built, Context, Path], Rows | DataFrame]]] = {
    ("sources", "topic"): _topic,
    ("sources", "files"): _files,
    ("sources", "table"): _table,
    ("steps", "sql"): _sql,
    ("steps", "python"): _python,
    ("steps", "quality"): _quality,
    ("steps", "expire_after"): _expire_after,
    ("steps", "deduplicate"): _deduplicate,
    ("steps", "route"): _route,
}
