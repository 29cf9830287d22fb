"""Pipelines from a file, checked and run: sources, steps and sinks.

- `Context`: what a pipeline's Python function is given.
- `Options`, `check_file`, `run_file`: what `penstock pipeline` does.
- `PipelineError`: a pipeline that cannot run, in one line.
"""

from penstock.spark.pipeline.command import Options, check_file, run_file
from penstock.spark.pipeline.context import Context
from penstock.spark.pipeline.problems import PipelineError

__all__ = ["Context", "Options", "PipelineError", "check_file", "run_file"]
