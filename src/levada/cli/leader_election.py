"""`levada leader-election`: has leaders elected anew, as Apache Kafka's kafka-leader-election.sh does."""

import argparse
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from levada.cli.json_fields import field
from levada.cli.kit.connecting import add_connection, admin_for
from levada.cli.kit.files import read_json
from levada.cli.kit.parser import natural
from levada.cli.kit.refusals import Refused, WrongUsage, changing
from levada.cli.kit.terminal import paint, print_json

if TYPE_CHECKING:
    from levada.client.admin import Outcomes
    from levada.client.types import TopicPartition

FILE_FLAG: Final = "--path-to-json-file"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = f'{FILE_FLAG} holds {{"partitions": [{{"topic": "orders", "partition": 1}}, ...]}}.'
    add_connection(parser)
    parser.add_argument("--admin.config", metavar="FILE", help="older name of --command-config")
    parser.add_argument(
        "--election-type", metavar="preferred|unclean", type=_election_type, required=True,
        help="preferred: the first replica leads, if it is in sync; unclean: where a partition has"
        " no leader, any replica that lives becomes it, and records may be lost",
    )  # fmt: skip
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--topic", metavar="TOPIC", help="a topic; wants --partition too")
    which.add_argument(FILE_FLAG, metavar="FILE", help="a list of partitions")
    which.add_argument("--all-topic-partitions", action="store_true", help="all that need it")
    parser.add_argument("--partition", metavar="N", type=natural, help="a partition of the topic")
    parser.add_argument("--json", action="store_true", help="print what became of each partition as JSON")


def run(arguments: argparse.Namespace) -> int:
    from levada.client.admin import ElectionType

    if (arguments.topic is None) != (arguments.partition is None):
        raise WrongUsage("--topic and --partition go together: one names the topic, one its partition")
    older_config = getattr(arguments, "admin.config")
    if older_config is not None:
        if arguments.command_config is not None:
            raise WrongUsage("--admin.config is the older name of --command-config: give one of them")
        print(
            "Option --admin.config has been deprecated and will be removed in a future version."
            " Use --command-config instead."
        )
        arguments.command_config = older_config
    partitions = wanted_partitions(arguments)
    with admin_for(arguments) as admin, changing("leaders were being elected"):
        elected = admin.elect_leaders(partitions, election_type=ElectionType[arguments.election_type])
    if arguments.json:
        print_json(_document(elected))
    else:
        for line in outcome_lines(arguments.election_type, elected):
            print(line)
    failed = _failed(elected)
    if failed:
        raise Refused(f"{len(failed)} replica(s) could not be elected")
    return 0


def wanted_partitions(arguments: argparse.Namespace) -> "list[TopicPartition] | None":
    """None for all of them."""
    from levada.client.types import TopicPartition

    if arguments.topic is not None:
        return [TopicPartition(arguments.topic, arguments.partition)]
    if arguments.path_to_json_file is None:
        return None
    path = arguments.path_to_json_file
    return listed_partitions(read_json(path, FILE_FLAG), f"{FILE_FLAG} {path}")


def listed_partitions(document: Any, source: str) -> "list[TopicPartition]":
    from levada.client.types import TopicPartition

    partitions = []
    for number, one in enumerate(field(document, "partitions", list, source)):
        where = f"{source}: partitions[{number}]"
        partitions.append(TopicPartition(field(one, "topic", str, where), field(one, "partition", int, where)))
    twice = [str(partition) for partition, count in Counter(partitions).items() if count > 1]
    if twice:
        raise Refused(f"Replica election data contains duplicate partitions: {', '.join(twice)}")
    return partitions


def outcome_lines(election_type: str, elected: "Outcomes[TopicPartition, None]") -> list[str]:
    """What became of the partitions, in Apache's words."""
    lines = []
    if elected.done:
        names = ", ".join(map(str, sorted(elected.done)))
        lines.append(f"Successfully completed leader election ({election_type}) for partitions {names}")
    needless = sorted(set(elected.errors) - set(_failed(elected)))
    if needless:
        lines.append(f"Valid replica already elected for partitions {', '.join(map(str, needless))}")
    for partition, error in sorted(_failed(elected).items()):
        reason = str(error).removeprefix(f"{partition}: ")
        text = f"Error completing leader election ({election_type}) for partition: {partition}: {reason}"
        lines.append(paint(text, "red"))
    return lines


def _failed(elected: "Outcomes[TopicPartition, None]") -> "dict[TopicPartition, Exception]":
    from levada.model.error_codes import ErrorCode

    not_needed = ErrorCode.ELECTION_NOT_NEEDED
    return {partition: error for partition, error in elected.errors.items() if error.code != not_needed}


def _document(elected: "Outcomes[TopicPartition, None]") -> dict[str, Any]:
    failed = _failed(elected)
    return {
        "partitions": [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "outcome": "elected"
                if partition in elected.done
                else "failed"
                if partition in failed
                else "not_needed",
                "error": str(failed[partition]) if partition in failed else None,
            }
            for partition in sorted(elected)
        ]
    }


def _election_type(text: str) -> str:
    kind = text.upper()
    if kind not in ("PREFERRED", "UNCLEAN"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither preferred nor unclean")
    return kind
