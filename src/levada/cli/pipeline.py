"""`levada pipeline`: checks and runs pipelines on Spark, and says how they are doing."""

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

from levada.cli.kit.system_errors import in_words

DEFAULT_MASTER = "local[2,4]"
MISSING = "pipelines need Spark: pip install 'levada[spark]'"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    run_parser = commands.add_parser("run", help="check a pipeline, then run it", description="Run a pipeline.")
    check_parser = commands.add_parser(
        "check", help="say what is wrong with a pipeline before it runs", description="Check a pipeline."
    )
    status_parser = commands.add_parser(
        "status", help="show queries, lag, last batch and errors", description="Show how a pipeline is doing."
    )
    for command in (run_parser, check_parser, status_parser):
        command.add_argument("file", metavar="FILE", type=Path, help="YAML, or Python with pipeline(context)")
        command.add_argument(
            "--bootstrap-server", metavar="HOST:PORT", help="wins over the file (default localhost:9092)"
        )
        command.add_argument("--checkpoint", metavar="DIR", help="where progress is kept; wins over the file")
    for command in (run_parser, check_parser):
        command.add_argument(
            "--master", metavar="URL", default=DEFAULT_MASTER, help=f"Spark's master (default {DEFAULT_MASTER})"
        )
        command.add_argument(
            "--set", metavar="KEY=VALUE", action="append", default=[], type=_setting, help="a setting of Spark's"
        )
    run_parser.add_argument("--available-now", action="store_true", help="end when all that is there is done")
    run_parser.add_argument("--trigger", metavar="TIME", help="begin a batch so often, as 2s; wins over the file")
    run_parser.add_argument("--interval", metavar="S", type=float, help="seconds between progress lines")


def run(arguments: argparse.Namespace) -> int:
    try:
        if find_spec("pyspark") is None:
            raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
        from levada.spark.pipeline import PipelineOptions, check_file, run_file, status_of_file
        from levada.spark.pipeline.values import duration
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "levada":
            raise
        print(f"levada: {MISSING} ({error})", file=sys.stderr)
        return 1
    trigger = getattr(arguments, "trigger", None)
    try:
        trigger = None if trigger is None else duration(trigger)
    except ValueError as error:
        print(f"levada: --trigger: {error}", file=sys.stderr)
        return 2
    options = PipelineOptions(
        file=arguments.file,
        master=getattr(arguments, "master", DEFAULT_MASTER),
        bootstrap=arguments.bootstrap_server,
        checkpoint=arguments.checkpoint,
        is_available_now=getattr(arguments, "available_now", False),
        trigger=trigger,
        interval_s=getattr(arguments, "interval", None),
        settings=dict(getattr(arguments, "set", ())),
    )
    commands = {"run": run_file, "check": check_file, "status": status_of_file}
    try:
        return commands[arguments.command](options)
    except (ValueError, OSError, RuntimeError) as error:
        print(f"levada: {in_words(error)}", file=sys.stderr)
        return 1


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} must be KEY=VALUE")
    return name.strip(), value.strip()
