"""The commands of `levada transactions`, and their flags."""

import argparse
from collections.abc import Callable
from typing import Final

from levada.cli.kit.connecting import add_connection
from levada.cli.kit.parser import key_value, natural, number

DEFAULT_LONGEST_MINUTES: Final = 15


def _fitting(bits: int, parse: Callable[[str], int]) -> Callable[[str], int]:
    """Numbers that a request has room for."""

    def read(text: str) -> int:
        value = parse(text)
        if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise argparse.ArgumentTypeError(f"{text!r} is too large")
        return value

    return read


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_connection(parser)
    commands = parser.add_subparsers(metavar="COMMAND", dest="command", required=True)
    _add_list(commands.add_parser("list", help="print all transactional ids"))
    _add_describe(commands.add_parser("describe", help="print what is known of a transactional id"))
    _add_describe_producers(commands.add_parser("describe-producers", help="print who writes to a partition"))
    _add_abort(commands.add_parser("abort", help="end a transaction in a partition where it hangs"))
    _add_find_hanging(
        commands.add_parser("find-hanging", help="print transactions without a producer, which keep readers waiting")
    )
    _add_force(
        commands.add_parser(
            "forceTerminateTransaction", help="abort the transaction of a transactional id, and fence its producer"
        )
    )
    for each in commands.choices.values():
        _add_connection_again(each)


def _add_connection_again(parser: argparse.ArgumentParser) -> None:
    """Behind the command too, where other tools have them. Without defaults, which would hide what stands before it."""
    for flag in ("--bootstrap-server", "--command-config"):
        parser.add_argument(flag, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    parser.add_argument(
        "--command-property", action="append", type=key_value, default=argparse.SUPPRESS, help=argparse.SUPPRESS
    )


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--duration-filter",
        metavar="MS",
        type=_fitting(64, number),
        help="only transactions that last longer; below 0: all",
    )
    parser.add_argument("--transactional-id-pattern", metavar="REGEX", help="only ids that fit an expression (RE2)")
    _add_json(parser)


def _add_describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--transactional-id", metavar="ID", required=True, help="the transactional id")
    _add_json(parser)


def _add_describe_producers(parser: argparse.ArgumentParser) -> None:
    _add_partition(parser, required=True)
    parser.add_argument("--broker-id", metavar="ID", type=natural, help="the broker to ask (default the leader)")
    _add_json(parser)


def _add_abort(parser: argparse.ArgumentParser) -> None:
    _add_partition(parser, required=True)
    parser.add_argument("--start-offset", metavar="OFFSET", type=natural, help="where the transaction begins")
    older = parser.add_argument_group("in place of --start-offset, with brokers before 3.0")
    older.add_argument("--producer-id", metavar="ID", type=_fitting(64, number), help="who began it")
    older.add_argument("--producer-epoch", metavar="EPOCH", type=_fitting(16, number), help="the producer's epoch")
    older.add_argument(
        "--coordinator-epoch", metavar="EPOCH", type=_fitting(32, number), help="the coordinator's epoch"
    )


def _add_find_hanging(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--broker-id", metavar="ID", type=natural, help="partitions that this broker has a replica of")
    parser.add_argument(
        "--max-transaction-timeout", metavar="MINUTES", type=natural, default=DEFAULT_LONGEST_MINUTES,
        help=f"how long a transaction may last that does not hang (default {DEFAULT_LONGEST_MINUTES})",
    )  # fmt: skip
    _add_partition(parser, required=False)
    _add_json(parser)


def _add_force(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--transactionalId", metavar="ID", dest="transactional_id", required=True, help="the id")


def _add_partition(parser: argparse.ArgumentParser, *, required: bool) -> None:
    parser.add_argument("--topic", metavar="TOPIC", required=required, help="a topic")
    parser.add_argument(
        "--partition", metavar="N", type=_fitting(32, natural), required=required, help="a partition of the topic"
    )


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print a JSON document")
