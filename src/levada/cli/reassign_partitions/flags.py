"""The flags of `levada reassign-partitions`, and which of them belong to which action."""

import argparse
from typing import Final

from levada.cli.kit.connecting import add_connection
from levada.cli.kit.parser import natural, number
from levada.cli.kit.refusals import WrongUsage

PLAN_FLAG: Final = "--reassignment-json-file"
TOPICS_FLAG: Final = "--topics-to-move-json-file"
DEFAULT_TIMEOUT_MS: Final = 10_000

NEEDED: Final = {
    "generate": {TOPICS_FLAG, "--broker-list"},
    "execute": {PLAN_FLAG},
    "verify": {PLAN_FLAG},
    "cancel": {PLAN_FLAG},
    "list": set[str](),
}
PERMITTED: Final = {
    "generate": {"--disable-rack-aware", "--json"},
    "execute": {
        "--additional", "--throttle", "--replica-alter-log-dirs-throttle", "--timeout",
        "--disallow-replication-factor-change",
    },
    "verify": {"--preserve-throttles", "--json"},
    "cancel": {"--preserve-throttles", "--timeout"},
    "list": {"--json"},
}  # fmt: skip

EPILOG: Final = f"""\
{PLAN_FLAG} holds {{"version": 1, "partitions": [{{"topic": "orders", "partition": 0, "replicas": [1, 2],
"log_dirs": ["any", "/data/b"]}}, ...]}}; without "log_dirs" each broker chooses.
{TOPICS_FLAG} holds {{"version": 1, "topics": [{{"topic": "orders"}}, ...]}}."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_connection(parser)
    action = parser.add_mutually_exclusive_group(required=True)
    for name, what in (
        ("generate", "print where partitions lie and where they could"),
        ("execute", "begin a reassignment"),
        ("verify", "print how far it is; when it is complete, remove its throttles"),
        ("cancel", "take it back"),
        ("list", "print those that are under way"),
    ):
        action.add_argument(f"--{name}", dest="action", action="store_const", const=name, help=what)
    parser.add_argument(PLAN_FLAG, metavar="FILE", help="what --execute, --verify and --cancel are about")
    parser.add_argument(TOPICS_FLAG, metavar="FILE", help="what --generate is about")
    parser.add_argument("--broker-list", metavar="ID,...", type=_ids, help="the brokers that --generate may use")
    parser.add_argument("--disable-rack-aware", action="store_true", help="--generate pays no heed to racks")
    parser.add_argument("--throttle", metavar="BYTES", type=number, help="a second, from broker to broker")
    parser.add_argument(
        "--replica-alter-log-dirs-throttle", metavar="BYTES", type=number, help="a second, between log directories"
    )
    parser.add_argument(
        "--timeout", metavar="MS", type=natural,
        help=f"how long a broker may take to begin a move between log directories (default {DEFAULT_TIMEOUT_MS})",
    )  # fmt: skip
    parser.add_argument("--additional", action="store_true", help="also while another reassignment is under way")
    parser.add_argument("--preserve-throttles", action="store_true", help="leave throttles as they are")
    parser.add_argument(
        "--disallow-replication-factor-change", action="store_true", help="refuse to change the number of replicas"
    )
    parser.add_argument("--json", action="store_true", help="with --generate, --verify, --list: print JSON")


def check(arguments: argparse.Namespace) -> None:
    """WrongUsage for a flag that the action needs or does not know."""
    action = arguments.action
    for flag in sorted(NEEDED[action]):
        if _given(arguments, flag) is None:
            raise WrongUsage(f"--{action} needs {flag}")
    for flag in sorted(set().union(*NEEDED.values(), *PERMITTED.values())):
        if _given(arguments, flag) not in (None, False) and flag not in NEEDED[action] | PERMITTED[action]:
            users = [f"--{name}" for name in NEEDED if flag in NEEDED[name] | PERMITTED[name]]
            raise WrongUsage(f"{flag} can't be used with --{action}, only with {' or '.join(users)}")


def _given(arguments: argparse.Namespace, flag: str) -> object:
    return getattr(arguments, flag.removeprefix("--").replace("-", "_"))


def _ids(text: str) -> list[int]:
    ids = [natural(one) for one in text.split(",")]
    twice = sorted({one for one in ids if ids.count(one) > 1})
    if twice:
        raise argparse.ArgumentTypeError(f"Broker list contains duplicate entries: {', '.join(map(str, twice))}")
    return ids
