"""Kafka's scripts whose arguments, and not only their names, differ from our tools': lines in which they are called."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

ALIASES: Final = "LEVADA_ALIASES"
"""Set by the scripts that `levada aliases` writes: the directory they are in."""

CLASSES: Final[Mapping[str, str]] = {
    "BrokerApiVersionsCommand": "broker-api-versions",
    "ClusterTool": "cluster",
    "ConfigCommand": "configs",
    "ConsoleConsumer": "console-consumer",
    "ConsoleProducer": "console-producer",
    "ConsumerGroupCommand": "consumer-groups",
    "ConsumerPerformance": "consumer-perf-test",
    "DeleteRecordsCommand": "delete-records",
    "DumpLogSegments": "dump-log",
    "EndToEndLatency": "end-to-end-latency",
    "FeatureCommand": "features",
    "GetOffsetShell": "get-offsets",
    "GroupsCommand": "groups",
    "JmxTool": "metrics",
    "Kafka": "serve",
    "LeaderElectionCommand": "leader-election",
    "LogDirsCommand": "log-dirs",
    "PreferredReplicaLeaderElectionCommand": "preferred-replica-election",
    "ProducerPerformance": "producer-perf-test",
    "ReassignPartitionsCommand": "reassign-partitions",
    "ReplicaVerificationTool": "replica-verification",
    "TopicCommand": "topics",
    "TransactionsCommand": "transactions",
    "VerifiableConsumer": "verifiable-consumer",
    "VerifiableProducer": "verifiable-producer",
}
"""Of Java, by their last name: `kafka.tools` and `org.apache.kafka.tools` have had many of them in turn."""

EXTRA_SCRIPTS: Final = ("kafka-preferred-replica-election.sh", "kafka-run-class.sh")
PREFERRED: Final = "preferred-replica-election"
RUN_CLASS: Final = "run-class"


def as_tool(given: Sequence[str]) -> list[str]:
    """The arguments of `levada` for a line with one of these scripts; any other line as it is.

    >>> as_tool(["kafka-run-class.sh", "kafka.tools.GetOffsetShell", "--topic", "orders"])
    ['get-offsets', '--topic', 'orders']
    >>> as_tool(["kafka-preferred-replica-election.sh"])
    ['leader-election', '--election-type', 'preferred', '--all-topic-partitions']
    """
    words = list(given)
    name = _bare(words[0]) if words else ""
    if name == RUN_CLASS:
        # Options of the script itself, such as -daemon, stand before the class.
        at = next((place for place, word in enumerate(words) if place and not word.startswith("-")), None)
        tool = None if at is None else CLASSES.get(words[at].rpartition(".")[2])
        if at is None or tool is None:
            return words
        name, words = tool, [tool, *words[1:at], *words[at + 1 :]]
    rewrite = _REWRITES.get(name)
    return rewrite(words[1:]) if rewrite is not None else words


def _elect_preferred(flags: list[str]) -> list[str]:
    which = [] if "--path-to-json-file" in flags else ["--all-topic-partitions"]
    return ["leader-election", "--election-type", "preferred", *which, *flags]


_REWRITES: Final[Mapping[str, Callable[[list[str]], list[str]]]] = {PREFERRED: _elect_preferred}


def _bare(name: str) -> str:
    return name.removesuffix(".sh").removesuffix(".bat").removeprefix("kafka-")


def was_started_by(process: Path, aliases: str) -> bool:
    """Whether a process was started by the scripts in a directory."""
    environment = process.joinpath("environ").read_bytes().split(b"\0")
    return f"{ALIASES}={aliases}".encode() in environment


def own_aliases() -> str | None:
    """The directory of the script that this process was started by."""
    return os.environ.get(ALIASES)
