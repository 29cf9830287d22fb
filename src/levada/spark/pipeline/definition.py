"""A pipeline's YAML file: sources, steps and sinks, read strictly."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from levada.spark.pipeline import values
from levada.spark.pipeline.problems import PipelineError, Problem, unknown
from levada.spark.pipeline.repeated_keys import read_yaml
from levada.spark.pipeline.values import Kind, Value

MODES: Final = ("append", "update", "complete")
DELIVERIES: Final = ("exactly-once", "atomic-tasks", "at-least-once")
FORMATS: Final = ("json", "string", "avro", "protobuf", "binary")

SOURCES: Final[Mapping[str, Mapping[str, Kind]]] = {
    "topic": {
        "format": values.one_of(*FORMATS), "schema": values.text, "dead_letters": values.text,
        "tombstones": values.one_of("reject", "drop", "keep"), "registry": values.registry, "subject": values.text,
        "message": values.text, "options": values.options, "watermark": values.delays,
    },
    "files": {
        "format": values.one_of("text", "json", "csv"), "schema": values.text, "dead_letters": values.text,
        "options": values.options, "max_files": values.positive, "watermark": values.delays,
    },
    "table": {
        "database": values.text, "cursor": values.text, "schema": values.text, "max_rows": values.positive,
        "poll": values.seconds, "settle": values.seconds, "watermark": values.delays,
    },
}  # fmt: skip
"""The key that says what kind of source it is, and the others that go with it."""

STEPS: Final[Mapping[str, Mapping[str, Kind]]] = {
    "sql": {"watermark": values.delays},
    "python": {"inputs": values.texts, "watermark": values.delays},
    "quality": {"from": values.text},
    "expire_after": {"from": values.text, "timestamp": values.text},
    "deduplicate": {"from": values.text, "within": values.duration, "timestamp": values.text},
    "route": {"from": values.text, "topics": values.options, "default": values.text},
}

STEP_VALUES: Final[Mapping[str, Kind]] = {
    "sql": values.text, "python": values.text, "quality": values.anything, "expire_after": values.duration,
    "deduplicate": values.texts, "route": values.text,
}  # fmt: skip

SINKS: Final[Mapping[str, Mapping[str, Kind]]] = {
    "topic": {
        "from": values.text, "key": values.text, "format": values.one_of(*FORMATS), "schema": values.text,
        "registry": values.registry, "subject": values.text, "message": values.text,
        "delivery": values.one_of(*DELIVERIES), "mode": values.one_of(*MODES),
        "options": values.options,
    },
    "routed": {
        "from": values.text, "key": values.text, "format": values.one_of(*FORMATS), "schema": values.text,
        "registry": values.registry, "subject": values.text, "message": values.text,
        "delivery": values.one_of(*DELIVERIES), "options": values.options,
    },
    "parquet": {"from": values.text, "partition_by": values.texts},
    "delta": {"from": values.text, "partition_by": values.texts, "mode": values.one_of("append", "complete")},
    "database": {
        "from": values.text, "table": values.text, "key": values.texts, "order": values.text,
        "delete_when": values.text, "create": values.flag, "retry_for": values.seconds, "mode": values.one_of(*MODES),
    },
    "console": {"from": values.text, "rows": values.positive, "mode": values.one_of(*MODES)},
}  # fmt: skip

SINK_VALUES: Final[Mapping[str, Kind]] = {"routed": values.flag, "console": values.flag}

REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "sources.table": ("database", "cursor"),
    "steps.quality": ("from",),
    "steps.expire_after": ("from",),
    "steps.deduplicate": ("from", "within"),
    "steps.route": ("from", "topics"),
    "sinks.database": ("table", "key"),
}

TOP: Final[Mapping[str, Kind]] = {
    "name": values.name, "sources": values.mapping, "steps": values.mapping, "sinks": values.mapping,
    "bootstrap": values.text, "registry": values.text, "registry_user": values.text,
    "registry_password": values.text, "registry_ca": values.text, "registry_wait": values.duration,
    "settings": values.options, "checkpoint": values.text, "trigger": values.duration,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PipelinePart:
    """One source, step or sink: what it is, what that key says, and the rest."""

    path: str
    name: str
    kind: str
    value: Value
    options: Mapping[str, Value] = field(repr=False)
    """The login of a registry may be among them."""

    @property
    def input(self) -> str | None:
        given: str | None = self.options.get("from")
        return given


@dataclass(frozen=True, slots=True)
class Definition:
    """A whole file."""

    directory: Path
    name: str | None = None
    """What its groups begin with; the file's name where it says nothing."""
    sources: tuple[PipelinePart, ...] = ()
    steps: tuple[PipelinePart, ...] = ()
    sinks: tuple[PipelinePart, ...] = ()
    bootstrap: str | None = None
    registry: str | None = field(default=None, repr=False)
    """Its address may have a password in it."""
    registry_user: str | None = field(default=None, repr=False)
    registry_password: str | None = field(default=None, repr=False)
    registry_ca: str | None = None
    registry_wait: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    checkpoint: str | None = None
    trigger: str | None = None


def definition_of(file: Path) -> tuple[Definition, list[Problem]]:
    """A Python file says nothing before it is run."""
    if not file.is_file():
        raise PipelineError(f"there is no file {file}")
    return (Definition(file.parent), []) if file.suffix == ".py" else load(file)


def load(path: Path) -> tuple[Definition, list[Problem]]:
    """What the file says, and all that is wrong with it; PipelineError if it is no YAML mapping at all."""
    try:
        content, repeated = read_yaml(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"cannot read {path}: {error}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark else str(path)
        raise PipelineError(f"{place}: not YAML: {getattr(error, 'problem', None) or error}") from error
    if not isinstance(content, dict):
        raise PipelineError(f"{path}: must be a mapping with sources, steps and sinks")
    definition, problems = parse(content, path.parent)
    return definition, [*repeated, *problems]


def parse(content: Mapping[str, Value], directory: Path) -> tuple[Definition, list[Problem]]:
    problems: list[Problem] = []
    top = _values(content, TOP, "", "key", problems)
    definition = Definition(
        directory,
        top.pop("name", None),
        _parts("sources", top.pop("sources", {}), SOURCES, {}, problems),
        _parts("steps", top.pop("steps", {}), STEPS, STEP_VALUES, problems),
        _parts("sinks", top.pop("sinks", {}), SINKS, SINK_VALUES, problems),
        **top,
    )
    problems += [Problem(required, "is missing") for required in ("sources", "sinks") if required not in content]
    problems += _names(definition)
    return definition, problems


def part_of(
    group: str,
    name: str,
    given: Mapping[str, Value],
    kinds: Mapping[str, Mapping[str, Kind]],
    kind_values: Mapping[str, Kind],
    problems: list[Problem],
) -> PipelinePart | None:
    """One source, step or sink; None if no key says what it is."""
    path = f"{group}.{name}"
    kind = next((key for key in kinds if key in given), None)
    if kind is None:
        problems.append(_no_kind(path, given, kinds))
        return None
    known = {kind: kind_values.get(kind, values.text), **kinds[kind]}
    options = _values(given, known, path, "key", problems)
    required = REQUIRED.get(f"{group}.{kind}", ())
    problems += [Problem(path, f"{missing!r} is missing") for missing in required if missing not in given]
    return PipelinePart(path, str(name), kind, options.pop(kind, None), options)


def _parts(
    group: str,
    content: Mapping[str, Value],
    kinds: Mapping[str, Mapping[str, Kind]],
    kind_values: Mapping[str, Kind],
    problems: list[Problem],
) -> tuple[PipelinePart, ...]:
    parts = []
    for name, given in content.items():
        if not isinstance(given, dict):
            problems.append(Problem(f"{group}.{name}", "must be a mapping"))
            continue
        part = part_of(group, name, given, kinds, kind_values, problems)
        if part is not None:
            parts.append(part)
    return tuple(parts)


def _no_kind(path: str, given: Mapping[str, Value], kinds: Mapping[str, Mapping[str, Kind]]) -> Problem:
    others = {key for keys in kinds.values() for key in keys}
    strange = [str(key) for key in given if key not in others]
    if strange:
        return Problem(f"{path}.{strange[0]}", unknown("key", strange[0], [*kinds, *sorted(others)]))
    return Problem(path, f"must have one of {', '.join(kinds)}")


def _values(
    given: Mapping[str, Value], known: Mapping[str, Kind], path: str, noun: str, problems: list[Problem]
) -> dict[str, Value]:
    """Those that are as they should be; the others become problems."""
    fine: dict[str, Value] = {}
    for key, value in given.items():
        place = f"{path}.{key}" if path else str(key)
        if key not in known:
            problems.append(Problem(place, unknown(noun, str(key), known)))
            continue
        try:
            # What is inside a group is looked at part by part, so that each problem has its place.
            fine[key] = known[key](value if known[key] is values.mapping else values.with_variables(value))
        except ValueError as error:
            problems.append(Problem(place, str(error)))
    return fine


def _names(definition: Definition) -> list[Problem]:
    """Names that are used must be those of a source or of a step further up."""
    parts = (*definition.sources, *definition.steps)
    problems = [
        Problem(part.path, "must be a name that SQL can use: letters, digits and _")
        for part in parts
        if not part.name.isidentifier()
    ]
    known = [source.name for source in definition.sources]
    for step in definition.steps:
        if step.name in known:
            problems.append(Problem(step.path, "a source or a step above has this name already"))
        problems += _unknown_inputs(step, known)
        known.append(step.name)
    for sink in definition.sinks:
        problems += _unknown_inputs(sink, known)
        if sink.input is None and len(known) != 1:
            problems.append(Problem(sink.path, f"'from' is missing: which of {', '.join(known) or 'none'}?"))
    return problems


def _unknown_inputs(part: PipelinePart, known: list[str]) -> list[Problem]:
    named = [("from", part.input)] if part.input is not None else []
    named += [("inputs", name) for name in part.options.get("inputs", ())]
    return [
        Problem(f"{part.path}.{key}", unknown("source or step", name, known))
        for key, name in named
        if name not in known
    ]
