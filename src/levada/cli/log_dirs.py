"""`levada log-dirs`: what lies in the brokers' log directories, as Apache Kafka's kafka-log-dirs.sh prints it."""

import argparse
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from levada.cli.kit.connecting import add_connection, admin_for
from levada.cli.kit.parser import natural
from levada.cli.kit.refusals import Refused
from levada.cli.kit.terminal import print_json

if TYPE_CHECKING:
    from levada.client.admin import LogDirectory
    from levada.client.errors import KafkaError

Directories = Mapping[int, "Mapping[str, LogDirectory]"]
"""Log directories by broker and path."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_connection(parser)
    parser.add_argument(
        "--describe", action="store_true", required=True, help="print the directories (there is no other action)"
    )
    parser.add_argument(
        "--broker-list", metavar="ID,...", type=_ids, default=[], help="only these brokers (default all)"
    )
    parser.add_argument(
        "--topic-list", metavar="TOPIC,...", type=_names, default=[], help="only these topics (default all)"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON document and nothing else")


def run(arguments: argparse.Namespace) -> int:
    with admin_for(arguments) as admin:
        known = [broker.broker_id for broker in admin.describe_cluster().brokers]
        unknown = [broker for broker in arguments.broker_list if broker not in known]
        if unknown:
            raise Refused(
                f"The given brokers do not exist from --broker-list: {_joined(unknown)}."
                f" Current existent brokers: {_joined(known)}"
            )
        wanted = sorted(arguments.broker_list or known)
        if not arguments.json:
            print("Querying brokers for log directories information", flush=True)
        found = admin.describe_log_dirs(wanted)
        found.raise_any()
    topics = set(arguments.topic_list)
    if arguments.json:
        print_json(document(found, topics))
        return 0
    print(f"Received log directory information from brokers {_joined(wanted)}")
    print(json.dumps(apaches_document(found, topics), separators=(",", ":"), ensure_ascii=False))
    return 0


def apaches_document(directories: Directories, topics: set[str]) -> dict[str, Any]:
    """With Apache's keys, in the order it writes them."""
    return {
        "brokers": [
            {
                "broker": broker,
                "logDirs": [
                    {
                        "partitions": [
                            {
                                "partition": str(partition),
                                "size": replica.size_bytes,
                                "offsetLag": replica.offset_lag,
                                "isFuture": replica.is_future,
                            }
                            for partition, replica in sorted(one.replicas.items())
                            if not topics or partition.topic in topics
                        ],
                        "error": None if one.error is None else java_name(one.error),
                        "logDir": path,
                    }
                    for path, one in sorted(found.items())
                ],
            }
            for broker, found in directories.items()
        ],
        "version": 1,
    }


def document(directories: Directories, topics: set[str]) -> dict[str, Any]:
    return {
        "brokers": [
            {
                "broker": broker,
                "log_dirs": [
                    {
                        "log_dir": path,
                        "error": None if one.error is None else str(one.error),
                        "total_bytes": one.total_bytes,
                        "usable_bytes": one.usable_bytes,
                        "is_cordoned": one.is_cordoned,
                        "partitions": [
                            {
                                "topic": partition.topic,
                                "partition": partition.partition,
                                "size_bytes": replica.size_bytes,
                                "offset_lag": replica.offset_lag,
                                "is_future": replica.is_future,
                            }
                            for partition, replica in sorted(one.replicas.items())
                            if not topics or partition.topic in topics
                        ],
                    }
                    for path, one in sorted(found.items())
                ],
            }
            for broker, found in directories.items()
        ]
    }


def java_name(error: "KafkaError") -> str:
    """The class of Apache's exception for the same code: scripts look for it."""
    assert error.code is not None
    words = error.code.name.removesuffix("_ERROR").split("_")
    return f"org.apache.kafka.common.errors.{''.join(word.capitalize() for word in words)}Exception"


def _joined(ids: list[int]) -> str:
    return ",".join(map(str, ids))


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _ids(text: str) -> list[int]:
    return [natural(one) for one in _names(text)]
