"""`levada cluster`: starts several brokers on this machine, or tells of a cluster what Kafka's own tool tells."""

import argparse

from levada.cli.cluster.commands import add_commands, run_command
from levada.cli.cluster.starting import DEFAULT_DIRECTORY, DEFAULT_PORT, run_brokers
from levada.cli.kit.parser import natural
from levada.cli.kit.refusals import WrongUsage

MOST_BROKERS = 100
START_FLAGS = ("base_port", "data_dir", "coordinator", "zookeeper", "set", "dev")
ZOOKEEPER_PORT = 2181


def add_arguments(parser: argparse.ArgumentParser) -> None:
    start = parser.add_argument_group("brokers on this machine, until Ctrl-C")
    start.add_argument("--brokers", metavar="N", type=natural, help="how many to start")
    start.add_argument("--base-port", metavar="P", type=natural, help=f"of the first one (default {DEFAULT_PORT})")
    start.add_argument("--data-dir", metavar="DIR", help=f"where all of them keep theirs (default {DEFAULT_DIRECTORY})")
    start.add_argument(
        "--coordinator",
        metavar="local:DIR|zookeeper://HOST:PORT,.../PATH",
        help="where the cluster's state lives (default local, in the data dir)",
    )
    start.add_argument(
        "--zookeeper",
        metavar="PORT",
        type=_port,
        nargs="?",
        const=ZOOKEEPER_PORT,
        help=f"start a server of Apache ZooKeeper too, and keep it there (default port {ZOOKEEPER_PORT})",
    )
    start.add_argument("--set", metavar="KEY=VALUE", action="append", help="a setting of every broker; may be repeated")
    start.add_argument("--dev", action="store_true", default=None, help="settings for a laptop and for tests")
    add_commands(parser)


def _port(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(
            f"{text!r} is no port to start a server on; an ensemble that is there is named by --coordinator"
        )
    return natural(text)


def run(arguments: argparse.Namespace) -> int:
    given = [name for name in START_FLAGS if getattr(arguments, name)]
    if arguments.command is not None:
        if arguments.brokers is not None or given:
            raise WrongUsage(f"{arguments.command} takes no flags of brokers that are to be started")
        return run_command(arguments)
    if arguments.brokers is None:
        raise WrongUsage(
            "say how many brokers to start, with --brokers N, or name a command (see levada cluster --help)"
        )
    if not 1 <= arguments.brokers <= MOST_BROKERS:
        raise WrongUsage(f"--brokers is a number from 1 to {MOST_BROKERS}, not {arguments.brokers}")
    if arguments.zookeeper is not None and arguments.coordinator is not None:
        raise WrongUsage("--coordinator and --zookeeper both say where the cluster's state lives: give one of them")
    return run_brokers(arguments)
