"""Pipelines from a file, checked and run: sources, steps and sinks.

- `Context`: what a pipeline's Python function is given.
- `Options`, `check_file`, `run_file`: what `levada pipeline` does.
- `PipelineError`: a pipeline that cannot run, in one line.
"""

from levada.spark.pipeline.command import Options, check_file, run_file
from levada.spark.pipeline.context import Context
from levada.spark.pipeline.problems import PipelineError

__all__ = ["Context", "Options", "PipelineError", "check_file", "run_file"]
