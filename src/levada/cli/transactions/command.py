"""What the commands of `levada transactions` ask for is done here."""

import argparse
from typing import TYPE_CHECKING

from levada.cli.kit.connecting import admin_for
from levada.cli.kit.refusals import WrongUsage

if TYPE_CHECKING:
    from collections.abc import Callable

    from levada.client.blocking import Admin


def run(arguments: argparse.Namespace) -> int:
    if arguments.command == "abort":
        _check_abort(arguments)
    if arguments.command == "find-hanging":
        _check_search(arguments)
    with admin_for(arguments) as admin:
        _commands()[arguments.command](admin, arguments)
    return 0


def _commands() -> "dict[str, Callable[[Admin, argparse.Namespace], None]]":
    from levada.cli.transactions.ending import abort, force_terminate
    from levada.cli.transactions.hanging import find_hanging
    from levada.cli.transactions.looking import describe, describe_producers, list_transactions

    return {
        "list": list_transactions,
        "describe": describe,
        "describe-producers": describe_producers,
        "abort": abort,
        "find-hanging": find_hanging,
        "forceTerminateTransaction": force_terminate,
    }


def _check_abort(arguments: argparse.Namespace) -> None:
    older = ("producer_id", "producer_epoch", "coordinator_epoch")
    if arguments.start_offset is None and None in [getattr(arguments, name) for name in older]:
        raise WrongUsage(
            "which transaction? give --start-offset, or for brokers before 3.0 --producer-id, --producer-epoch and"
            " --coordinator-epoch"
        )


def _check_search(arguments: argparse.Namespace) -> None:
    if arguments.topic is None and arguments.broker_id is None:
        raise WrongUsage("find-hanging looks at the partitions of a --topic or of a --broker-id: give one")
    if arguments.partition is not None and arguments.topic is None:
        raise WrongUsage("--partition wants --topic")
