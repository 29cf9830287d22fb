"""`levada pipeline status`: from the file that a run keeps, and from what brokers know, to lines."""

from typing import Final

from levada import Admin
from levada.client.errors import KafkaError
from levada.spark.paths import local_path
from levada.spark.pipeline.definition import definition_of
from levada.spark.pipeline.groups import lags_of
from levada.spark.pipeline.options import PipelineOptions, bootstrap_of, pipeline_name
from levada.spark.pipeline.problems import PipelineError, refused, say
from levada.spark.pipeline.status import FAILED, KILLED, lines_of, read_status

TIMEOUTS: Final = {"default.api.timeout.ms": 5_000, "request.timeout.ms": 5_000}


def status_of_file(options: PipelineOptions) -> int:
    """Print how a pipeline is doing; 1 if it has failed or was killed."""
    definition, problems = definition_of(options.file)
    if problems:
        return refused(problems)
    name, checkpoint = pipeline_name(options, definition), options.checkpoint or definition.checkpoint
    place = local_path(checkpoint) if checkpoint is not None else None
    if place is None:
        raise PipelineError("status is kept beside checkpoints in a directory: give --checkpoint DIR, as for run")
    status = read_status(str(place), name)
    if status is None:
        raise PipelineError(f"pipeline {name!r} has not run with the checkpoint {checkpoint}")
    lags: dict[str, int] = {}
    try:
        with Admin(bootstrap_of(options, definition), **TIMEOUTS) as admin:
            lags = lags_of(admin, name, [query.name for query in status.queries])
    except KafkaError as error:
        say(f"the lag is of the last batch: {error}")
    for line in lines_of(status, lags):
        print(line, flush=True)
    return 1 if status.state in (FAILED, KILLED) else 0
