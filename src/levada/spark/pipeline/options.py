"""What the command line says about a pipeline."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from levada.spark.defaults import BOOTSTRAP_SETTING, DEFAULT_BOOTSTRAP, DEFAULT_MASTER
from levada.spark.pipeline.definition import Definition


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """From the command line; they win over the file."""

    file: Path
    master: str = DEFAULT_MASTER
    bootstrap: str | None = None
    checkpoint: str | None = None
    is_available_now: bool = False
    trigger: str | None = None
    interval_s: float | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


def bootstrap_of(options: PipelineOptions, definition: Definition) -> str:
    """The brokers that the command line, the file or Spark's settings name."""
    settings = {**definition.settings, **options.settings}
    return options.bootstrap or definition.bootstrap or settings.get(BOOTSTRAP_SETTING) or DEFAULT_BOOTSTRAP


def pipeline_name(options: PipelineOptions, definition: Definition) -> str:
    return definition.name or options.file.stem
