"""`levada stop`: ends brokers of this machine as SIGTERM does: replies leave, logs reach the disk."""

import argparse
import sys

from levada.cli.kafka_scripts import own_aliases
from levada.cli.kit.parser import positive
from levada.cli.kit.processes import RunningBroker, all_brokers, is_running, process_of, stop_process
from levada.cli.kit.refusals import FAILED, Refused, warn
from levada.cli.kit.terminal import is_terminal, progress
from levada.cli.ps import line_of

DEFAULT_DIRECTORY = "./levada-data"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--data-dir", metavar="DIR", help=f"of the broker to stop (default {DEFAULT_DIRECTORY})")
    which.add_argument("--all", action="store_true", help="every broker of this user on this machine")
    parser.add_argument("--yes", action="store_true", help="with --all, do not ask")
    parser.add_argument("--timeout", metavar="SECONDS", type=positive, default=60, help="to wait for each (default 60)")


def run(arguments: argparse.Namespace) -> int:
    code = 0
    pids = _wanted(arguments)
    with progress("stopping brokers", len(pids)) as shown:
        for pid in pids:
            if stop_process(pid, arguments.timeout):
                print(f"levada: stopped process {pid}", flush=True)
            else:
                warn(f"process {pid} still runs after {arguments.timeout} s: look at its log, or give more --timeout")
                code = FAILED
            shown.advance()
    return code


def _ask(brokers: list[RunningBroker]) -> None:
    """Show what would be stopped, and go on if that is what was meant."""
    for broker in brokers:
        print(line_of(broker), file=sys.stderr)
    which = "this broker" if len(brokers) == 1 else f"these {len(brokers)} brokers"
    if not is_terminal(sys.stdin):
        raise Refused(f"to stop {which}, give --yes as well")
    print(f"Stop {which}? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Refused("nothing was stopped")


def _wanted(arguments: argparse.Namespace) -> list[int]:
    aliases = own_aliases()
    if aliases is not None and not arguments.all and arguments.data_dir is None:
        # Kafka's script stops what its other script has started, wherever its data lies.
        if not (started := all_brokers(aliases)):
            raise Refused(f"no broker runs that was started by the scripts in {aliases}")
        return [broker.pid for broker in started]
    if arguments.all:
        if not (brokers := all_brokers()):
            raise Refused("no broker of yours runs on this machine")
        if not arguments.yes:
            _ask(brokers)
        return [broker.pid for broker in brokers]
    # The first of several has what says which process it is.
    directory = (arguments.data_dir or DEFAULT_DIRECTORY).partition(",")[0]
    pid = process_of(directory)
    if pid is not None:
        return [pid]
    if is_running(directory):
        raise Refused(f"the broker in {directory} is still starting or stopping: try again in a moment")
    raise Refused(f"no broker runs in {directory}: name its --data-dir, or stop all of yours with --all")
