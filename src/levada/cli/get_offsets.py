"""`levada get-offsets`: prints where partitions begin and end, or where a time lies in them."""

import argparse
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from levada.cli.kit.connecting import add_connection, admin_for
from levada.cli.kit.parser import natural
from levada.cli.kit.refusals import Refused, WrongUsage, warn
from levada.cli.kit.terminal import print_json
from levada.cli.kit.topic_filter import TopicFilter

if TYPE_CHECKING:
    from levada.client.blocking import Admin
    from levada.client.types import TopicPartition

PLACES: Final = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}
"""Offsets that have a name, by the number that stands for them in a request."""

NO_OFFSET: Final = -1
MAX_TIME_MS: Final = 2**63 - 1

RULE: Final = re.compile(r"(?P<topic>[^:,]*)(:(?:(?P<only>[0-9]*)|(?P<from>[0-9]*)-(?P<until>[0-9]*)))?")


@dataclass(frozen=True, slots=True)
class TopicRule:
    """Which topics, and which partitions of them."""

    topic: TopicFilter
    has: Callable[[int], bool]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_connection(parser)
    parser.add_argument("--topic", metavar="NAME", help="a topic, or a regular expression (default all topics)")
    parser.add_argument("--partitions", metavar="N,N", type=partitions, help="only these partitions (default all)")
    parser.add_argument(
        "--topic-partitions", metavar="TOPIC:PARTITIONS,...", type=rules,
        help="instead of the two above: expressions for topics, each with a partition N, with those from N up to but"
        " not with M as N-M, N- or -M, or with none for all of them",
    )  # fmt: skip
    parser.add_argument(
        "--time", metavar="MS", type=time, default="latest",
        help=f"the first record that is not older than this; or one of {', '.join(PLACES)} (default latest)",
    )  # fmt: skip
    parser.add_argument("--exclude-internal-topics", action="store_true", help="leave out the brokers' own topics")
    parser.add_argument("--json", action="store_true", help="print a JSON document")


def run(arguments: argparse.Namespace) -> int:
    if arguments.topic_partitions is None:
        wanted = [_plain_rule(arguments.topic, arguments.partitions)]
    elif arguments.topic is None and arguments.partitions is None:
        wanted = arguments.topic_partitions
    else:
        raise WrongUsage("--topic-partitions cannot be used with --topic or --partitions")
    with admin_for(arguments) as admin:
        found = _find(admin, _partitions(admin, wanted, arguments.exclude_internal_topics), arguments.time)
    if arguments.json:
        print_json([{"topic": at.topic, "partition": at.partition, "offset": offset} for at, offset in found.items()])
    else:
        for at, offset in found.items():
            print(f"{at.topic}:{at.partition}:{offset}")
    return 0


def _plain_rule(topic: str | None, chosen: set[int] | None) -> TopicRule:
    return TopicRule(TopicFilter(".*" if topic is None else topic), lambda index: not chosen or index in chosen)


def _partitions(admin: "Admin", wanted: list[TopicRule], exclude_internal: bool) -> "list[TopicPartition]":
    """All that a rule allows, in the order of their names: the tenth comes before the second."""
    from levada.client.types import TopicPartition

    names = [
        name
        for name in admin.list_topics(include_internal=not exclude_internal)
        if any(rule.topic.allows(name) for rule in wanted)
    ]
    topics = admin.describe_topics(names) if names else {}
    found = [
        TopicPartition(name, one.index)
        for name in names
        for one in topics[name].partitions
        if any(rule.topic.allows(name) and rule.has(one.index) for rule in wanted)
    ]
    if not found:
        raise Refused("Could not match any topic-partitions with the specified filters; see `levada topics --describe`")
    return sorted(found, key=str)


def _find(admin: "Admin", partitions: "list[TopicPartition]", place: int) -> "dict[TopicPartition, int]":
    from levada.client.admin import OffsetSpec

    spec: OffsetSpec | int = OffsetSpec(place) if place < 0 else place
    found = admin.list_offsets(dict.fromkeys(partitions, spec))
    for partition, error in found.errors.items():
        warn(f"Skip getting offsets for topic-partition {partition} due to error: {error}")
    return {partition: one.offset for partition, one in found.done.items() if one.offset != NO_OFFSET}


def partitions(text: str) -> set[int]:
    """
    >>> sorted(partitions("0,2,"))
    [0, 2]
    """
    return {natural(one) for one in _listed(text)} if text else set()


def rules(text: str) -> list[TopicRule]:
    """
    >>> orders, every = rules("orders:1-3,:7")
    >>> [orders.has(partition) for partition in (0, 1, 2, 3)]
    [False, True, True, False]
    >>> every.topic.allows("anything"), every.has(7), every.has(8)
    (True, True, False)
    """
    return [_rule(one) for one in _listed(text)]


def _rule(text: str) -> TopicRule:
    found = RULE.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not TOPIC, TOPIC:N, TOPIC:N-M, TOPIC:N- or TOPIC:-M")
    topic = TopicFilter(found["topic"] or ".*")
    if found["only"]:
        only = int(found["only"])
        return TopicRule(topic, lambda partition: partition == only)
    first, until = int(found["from"] or 0), int(found["until"] or MAX_TIME_MS)
    return TopicRule(topic, lambda partition: first <= partition < until)


def _listed(text: str) -> list[str]:
    """Between commas; those at the end mean nothing, as with Java's split."""
    return text.rstrip(",").split(",") if text.rstrip(",") or not text else []


def time(text: str) -> int:
    """
    >>> time("earliest"), time("-1"), time("1700000000000")
    (-2, -1, 1700000000000)
    """
    if text in PLACES:
        return PLACES[text]
    places = set(PLACES.values())
    is_known = re.fullmatch(r"[+-]?[0-9]+", text) is not None and (0 <= int(text) <= MAX_TIME_MS or int(text) in places)
    if not is_known:
        known = ", ".join(f"{name} ({number})" for name, number in PLACES.items())
        raise argparse.ArgumentTypeError(f"{text!r} is neither a time in milliseconds nor one of {known}")
    return int(text)
