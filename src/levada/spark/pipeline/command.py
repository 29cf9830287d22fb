"""`levada pipeline run` and `check` with Spark: from a file that was looked at to running queries."""

import logging
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from pyspark.sql import SparkSession

from levada.spark.paths import local_path
from levada.spark.pipeline.building import build, build_from_python
from levada.spark.pipeline.checking import check
from levada.spark.pipeline.context import Context
from levada.spark.pipeline.definition import Definition
from levada.spark.pipeline.failure import advice_for
from levada.spark.pipeline.groups import QueryGroups
from levada.spark.pipeline.leftovers import clear_leftovers
from levada.spark.pipeline.meter import ProgressWatch
from levada.spark.pipeline.options import PipelineOptions, bootstrap_of, pipeline_name
from levada.spark.pipeline.problems import PipelineError, Problem, QueryFailed, refused, say
from levada.spark.pipeline.progress import Display, QueryProgress
from levada.spark.pipeline.queries import AVAILABLE_NOW, start
from levada.spark.pipeline.registries import RegistryWatch, registry_of_file
from levada.spark.pipeline.running import (
    Running,
    StoppedAtOnce,
    StopSignals,
    stop_at_once,
    supervise,
    wait_for_start,
)
from levada.spark.pipeline.shielding import shielded
from levada.spark.pipeline.sinks import Control
from levada.spark.pipeline.status import DONE, FAILED, STOPPED, StatusFile
from levada.spark.pipeline.topics import Findings
from levada.spark.pipeline.writes import TopicSink, Write, checkpoint_of
from levada.spark.sessions import session

TERMINAL_INTERVAL_S: Final = 1.0
LINES_INTERVAL_S: Final = 10.0
LOG: Final = "spark.log"
"""Beside the checkpoints: what Spark itself has to say, a page for each of our lines."""

LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""PySpark's, which tell each refusal once more, as JSON."""


@dataclass(frozen=True, slots=True)
class BuiltPipeline:
    """A pipeline that is built, with everything that is wrong with it."""

    name: str
    context: Context
    writes: list[Write]
    findings: Findings
    checkpoint: str | None
    trigger: str | None


def check_file(options: PipelineOptions, definition: Definition) -> int:
    """Print each problem on a line; 0 if there is none."""
    spark = _session(options, definition)
    try:
        plan = plan_of(spark, options, definition)
    finally:
        spark.stop()
    _print_notes(plan.findings.notes)
    if not plan.findings.problems:
        print(f"ok: {options.file}: {_count(plan.writes)}", flush=True)
    return refused(plan.findings.problems)


def run_file(options: PipelineOptions, definition: Definition) -> int:
    """Check, then run until the end, a signal or a failure."""
    _make_directory(options.checkpoint or definition.checkpoint or "")
    spark = _session(options, definition)
    # A signal while Spark starts or checks run ends the process as ever; from here on it is ours.
    try:
        plan = plan_of(spark, options, definition)
        _print_notes(plan.findings.notes)
        return refused(plan.findings.problems) or run(plan, options)
    except StoppedAtOnce:
        say("stopped in the middle of a batch, which is done again after the next start")
        # Spark would wait for the batch; without this process it ends as well.
        sys.stdout.flush()
        os._exit(1)
    finally:
        spark.stop()


def plan_of(spark: SparkSession, options: PipelineOptions, definition: Definition) -> BuiltPipeline:
    context = Context(spark, options.bootstrap or definition.bootstrap, registry_of_file(definition))
    is_python = options.file.suffix == ".py"
    problems = build_from_python(options.file, context) if is_python else build(definition, context)
    left_behind, more = context.left_behind() if not problems else ([], [])
    writes = [*context.writes, *left_behind]
    checkpoint = options.checkpoint or definition.checkpoint
    findings = check(context, writes, checkpoint)
    findings.problems = [*problems, *more, *findings.problems]
    trigger = AVAILABLE_NOW if options.is_available_now else options.trigger or definition.trigger
    return BuiltPipeline(pipeline_name(options, definition), context, writes, findings, checkpoint, trigger)


def run(plan: BuiltPipeline, options: PipelineOptions) -> int:
    assert plan.checkpoint is not None
    is_terminal = sys.stdout.isatty()
    display = Display(sys.stdout, is_terminal=is_terminal, columns=shutil.get_terminal_size().columns)
    interval_s = options.interval_s or (TERMINAL_INTERVAL_S if is_terminal else LINES_INTERVAL_S)
    running = Running()
    control = Control()
    signals = StopSignals(control)
    queries = [write.name for write in plan.writes]
    with ExitStack() as stack:
        here = local_path(plan.checkpoint)
        status = stack.enter_context(StatusFile(str(here), plan.name, queries)) if here is not None else None
        groups = stack.enter_context(QueryGroups(plan.name, plan.context.bootstrap))
        running.watch = stack.enter_context(ProgressWatch(plan.context.bootstrap, _own_topics(plan)))
        stack.enter_context(signals.heard())

        def tell(progress: Sequence[QueryProgress]) -> None:
            groups.commit(progress)
            if status is not None:
                status.note(progress)

        try:
            clear_leftovers(plan.checkpoint, queries)
            for write in plan.writes:
                noting = Control(control.stopping, partial(running.note, write.name))
                place = checkpoint_of(plan.checkpoint, write.name)
                begin = partial(start, write, plan.context.bootstrap, place, plan.trigger, noting)
                wait_for_start(running.start(write.name, begin), control)
            stack.enter_context(RegistryWatch(plan.context.schema_sources, queries, running))
            print(f"levada: running {_count(plan.writes)}", flush=True)
            supervise(running, control, signals, display, interval_s, tell)
        except QueryFailed as failure:
            say(f"{failure}{advice_for(failure, plan.checkpoint)}")
            tell(running.look())
            stop_at_once(running)
            if status is not None:
                status.end(FAILED, str(failure), failure)
            return 1
        except StoppedAtOnce:
            if status is not None:
                status.end(STOPPED, "in the middle of a batch, which is done again after the next start")
            raise
        state = STOPPED if control.stopping.is_set() else DONE
        if status is not None:
            status.end(state)
    print(f"levada: {state}; {running.summary()}", flush=True)
    return 0


def _own_topics(plan: BuiltPipeline) -> set[str]:
    written = {write.sink.topic for write in plan.writes if isinstance(write.sink, TopicSink) and write.sink.topic}
    return written | plan.context.routed_topics


def _session(options: PipelineOptions, definition: Definition) -> SparkSession:
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    settings = {**definition.settings, **options.settings}
    bootstrap = bootstrap_of(options, definition)
    is_here = options.master.startswith("local")
    with _errors_to(_log_file(options, definition)), shielded(has_workers=is_here):
        name = pipeline_name(options, definition)
        return session(options.master, bootstrap=bootstrap, app_name=name, settings=settings)


def _make_directory(checkpoint: str) -> None:
    here = local_path(checkpoint)
    if here is not None:
        try:
            here.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PipelineError(f"checkpoint: cannot make {checkpoint}: {error.strerror}") from error


def _log_file(options: PipelineOptions, definition: Definition) -> str:
    checkpoint = options.checkpoint or definition.checkpoint
    here = local_path(checkpoint) if checkpoint is not None else None
    return str(here / LOG) if here is not None and here.is_dir() else os.devnull


@contextmanager
def _errors_to(path: str) -> Iterator[None]:
    """What is started meanwhile, that is Java, has the file for its errors as long as it lives."""
    sys.stderr.flush()
    ours = os.dup(2)
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.dup2(file, 2)
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)
        os.close(file)


def _print_notes(notes: list[Problem]) -> None:
    for note in notes:
        print(f"note: {note}", flush=True)


def _count(writes: list[Write]) -> str:
    names = ", ".join(write.name for write in writes)
    return f"{len(writes)} {'query' if len(writes) == 1 else 'queries'}: {names}"
