"""`levada stop`: ends brokers of this machine as SIGTERM does: replies leave, logs reach the disk."""

import argparse

from levada.cli.kit.parser import positive
from levada.cli.kit.processes import all_brokers, is_running, process_of, stop_process
from levada.cli.kit.refusals import FAILED, Refused, warn
from levada.cli.kit.terminal import progress

DEFAULT_DIRECTORY = "./levada-data"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--data-dir", metavar="DIR", help=f"of the broker to stop (default {DEFAULT_DIRECTORY})")
    which.add_argument("--all", action="store_true", help="every broker of this user on this machine")
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


def _wanted(arguments: argparse.Namespace) -> list[int]:
    if arguments.all:
        if not (pids := all_brokers()):
            raise Refused("no broker of yours runs on this machine")
        return pids
    # The first of several has what says which process it is.
    directory = (arguments.data_dir or DEFAULT_DIRECTORY).partition(",")[0]
    pid = process_of(directory)
    if pid is not None:
        return [pid]
    if is_running(directory):
        raise Refused(f"the broker in {directory} is still starting or stopping: try again in a moment")
    raise Refused(f"no broker runs in {directory}: name its --data-dir, or stop all of yours with --all")
