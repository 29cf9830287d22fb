"""The flags of `levada topics`, what their values look like, and which of them go together."""

import argparse
from typing import Final

from levada.cli.kit.connecting import add_connection
from levada.cli.kit.parser import number, positive
from levada.cli.kit.refusals import WrongUsage, warn
from levada.model.hashes import uuid_from_text
from levada.model.timestamp_types import as_kafka_writes

MAX_REPLICATION_FACTOR: Final = 2**15 - 1
PARTITIONS_PER_RESPONSE: Final = 2_000

REPORTS: Final = (
    "under_replicated_partitions",
    "unavailable_partitions",
    "under_min_isr_partitions",
    "at_min_isr_partitions",
)
"""Flags that leave out partitions which are as they should be."""

ACTIONS: Final = ("create", "alter", "delete", "list", "describe")

ONLY_WITH: Final = {
    "config": ("create",),
    "partitions": ("create", "alter"),
    "replication_factor": ("create",),
    "replica_assignment": ("create", "alter"),
    "if_exists": ("alter", "delete", "describe"),
    "if_not_exists": ("create",),
    "exclude_internal": ("list", "describe"),
    "topics_with_overrides": ("describe",),
    "json": ("list", "describe"),
    **dict.fromkeys(REPORTS, ("describe",)),
}
"""The actions that each flag makes sense with."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_connection(parser)
    actions = parser.add_mutually_exclusive_group(required=True)
    actions.add_argument("--create", action="store_true", help="make a topic")
    actions.add_argument("--alter", action="store_true", help="give topics more partitions")
    actions.add_argument("--delete", action="store_true", help="delete topics with all their records")
    actions.add_argument("--list", action="store_true", help="print the names of topics")
    actions.add_argument("--describe", action="store_true", help="print topics with their partitions")
    parser.add_argument("--topic", metavar="NAME", help="the topic; a regular expression too, except to --create")
    parser.add_argument("--json", action="store_true", help="print a JSON document (with --list, --describe)")
    _add_shape(parser)
    _add_choice(parser)


def _add_shape(parser: argparse.ArgumentParser) -> None:
    shape = parser.add_argument_group("what the topic shall be like")
    shape.add_argument(
        "--partitions", metavar="N", type=positive,
        help="how many in all (default to --create: num.partitions); records stay where they are, so keys may move",
    )  # fmt: skip
    shape.add_argument(
        "--replication-factor", metavar="N", type=replication_factor,
        help="copies of each partition (default: default.replication.factor)",
    )  # fmt: skip
    shape.add_argument(
        "--replica-assignment", metavar="B:B,B:B", type=replica_assignment, default={},
        help="the brokers of each partition from 0 on, the preferred leader first",
    )  # fmt: skip
    shape.add_argument(
        "--config", metavar="KEY=VALUE", action="append", default=[], type=setting,
        help="a setting of the new topic; to change one later, use `levada configs`",
    )  # fmt: skip
    shape.add_argument("--delete-config", metavar="KEY", action="append", help="does nothing any more")


def _add_choice(parser: argparse.ArgumentParser) -> None:
    choice = parser.add_argument_group("which topics and partitions")
    choice.add_argument("--if-exists", action="store_true", help="a topic that is not there is no error")
    choice.add_argument("--if-not-exists", action="store_true", help="a topic that is there already is no error")
    choice.add_argument("--exclude-internal", action="store_true", help="leave out the brokers' own topics")
    choice.add_argument(
        "--topic-id", metavar="ID", type=topic_id, help="describe the topic with this id, whatever --topic says"
    )
    choice.add_argument("--topics-with-overrides", action="store_true", help="only topics with settings of their own")
    choice.add_argument(
        "--under-replicated-partitions", action="store_true", help="only partitions with a replica out of sync"
    )
    choice.add_argument("--unavailable-partitions", action="store_true", help="only partitions without a leader")
    choice.add_argument(
        "--under-min-isr-partitions", action="store_true",
        help="only partitions with fewer replicas in sync than min.insync.replicas",
    )  # fmt: skip
    choice.add_argument(
        "--at-min-isr-partitions", action="store_true",
        help="only partitions with just min.insync.replicas in sync",
    )  # fmt: skip
    choice.add_argument(
        "--partition-size-limit-per-response", metavar="N", type=positive, default=PARTITIONS_PER_RESPONSE,
        help=f"partitions that a broker describes at a time (default {PARTITIONS_PER_RESPONSE})",
    )  # fmt: skip


def action_of(arguments: argparse.Namespace) -> str:
    return next(action for action in ACTIONS if getattr(arguments, action))


def check(arguments: argparse.Namespace) -> None:
    """WrongUsage for flags that do not go together."""
    action = action_of(arguments)
    if action == "alter" and arguments.config:
        raise WrongUsage("--alter changes no settings: use `levada configs --alter --topic NAME --add-config ...`")
    for name, actions in ONLY_WITH.items():
        if getattr(arguments, name) and action not in actions:
            raise WrongUsage(f"{flag(name)} goes with --{', --'.join(actions)} only, not with --{action}")
    if arguments.delete_config is not None:
        warn("warning: --delete-config does nothing; use `levada configs --alter --topic NAME --delete-config KEY`")
    if arguments.topic is None and action in ("create", "alter", "delete"):
        raise WrongUsage(f"--{action} needs --topic")
    if action == "alter" and arguments.partitions is None:
        raise WrongUsage("--alter needs --partitions")
    if action == "describe":
        _check_describe(arguments)
    if action == "create" and arguments.replica_assignment:
        for name in ("partitions", "replication_factor"):
            if getattr(arguments, name) is not None:
                raise WrongUsage(f"--replica-assignment says already what {flag(name)} says: give one of them")


def _check_describe(arguments: argparse.Namespace) -> None:
    if arguments.if_exists and arguments.topic is None and arguments.topic_id is None:
        raise WrongUsage("--describe --if-exists needs --topic or --topic-id")
    if arguments.if_exists and arguments.topic is not None and arguments.topic_id is not None:
        # Kafka's tool says so too, on stdout and only then.
        print(
            "Only topic id will be used when both --topic and --topic-id are specified"
            " and topicId is not Uuid.ZERO_UUID"
        )
    for report in REPORTS:
        if arguments.topics_with_overrides and getattr(arguments, report):
            raise WrongUsage(f"--topics-with-overrides shows no partitions, and {flag(report)} only those")


def flag(name: str) -> str:
    """
    >>> flag("replica_assignment")
    '--replica-assignment'
    """
    return f"--{name.replace('_', '-')}"


def setting(text: str) -> tuple[str, str]:
    """A topic's setting, which has a value and just one equals sign.

    >>> setting("retention.ms = 1000")
    ('retention.ms', '1000')
    """
    key, *values = [part.strip() for part in text.split("=")]
    if not key or len(values) != 1 or not values[0]:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, as_kafka_writes(key, values[0])


def replication_factor(text: str) -> int:
    if not 1 <= (value := number(text)) <= MAX_REPLICATION_FACTOR:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 1 and {MAX_REPLICATION_FACTOR}")
    return value


def replica_assignment(text: str) -> dict[int, list[int]]:
    """The brokers of each partition.

    >>> replica_assignment("1:2,2:3")
    {0: [1, 2], 1: [2, 3]}
    """
    partitions = [[number(broker.strip()) for broker in one.split(":")] for one in text.split(",") if text]
    for index, brokers in enumerate(partitions):
        if len(set(brokers)) < len(brokers):
            raise argparse.ArgumentTypeError(f"partition {index} has a broker twice: {brokers}")
        if len(brokers) != len(partitions[0]):
            raise argparse.ArgumentTypeError(
                f"partition {index} has another replication factor than partition 0: {brokers}"
            )
    return dict(enumerate(partitions))


def topic_id(text: str) -> bytes:
    """The 16 bytes of an id, which is given as it is printed."""
    try:
        return uuid_from_text(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
