"""Pipelines from a file, checked and run: sources, steps and sinks.

- `Context`: what a pipeline's Python function is given.
- `PipelineOptions`, `check_file`, `run_file`, `status_of_file`: what `levada pipeline` does.
- `PipelineError`: a pipeline that cannot run, in one line.
"""

from typing import TYPE_CHECKING, Any

from levada.spark.pipeline.options import PipelineOptions
from levada.spark.pipeline.preflight import check_file, run_file
from levada.spark.pipeline.problems import PipelineError
from levada.spark.pipeline.status_command import status_of_file

if TYPE_CHECKING:
    from levada.spark.pipeline.context import Context

__all__ = ["Context", "PipelineError", "PipelineOptions", "check_file", "run_file", "status_of_file"]


def __getattr__(name: str) -> Any:
    # Loaded when asked for: it brings Spark, and much can be wrong with a pipeline before that.
    if name == "Context":
        from levada.spark.pipeline.context import Context

        return Context
    raise AttributeError(f"module 'levada.spark.pipeline' has no attribute {name!r}")
