"""Every tool by its name, and Kafka's script names for the same."""

from typing import Final

SECTIONS: Final = {
    "servers": {
        "serve": "start one broker",
        "ps": "list the brokers that run on this machine",
        "stop": "stop the brokers of this machine",
        "zookeeper": "start one server of Apache ZooKeeper",
        "doctor": "name what is risky in a machine, a cluster, its topics and a client's settings",
        "metrics": "print a broker's metrics at an interval",
        "dump-log": "print the files of a log directory",
    },
    "topics and records": {
        "topics": "create, change, delete, list and describe topics",
        "configs": "describe and change the settings of topics, brokers, groups and clients",
        "console-producer": "send lines as records",
        "console-consumer": "print records as lines",
        "get-offsets": "print where partitions begin and end",
        "delete-records": "delete the oldest records of partitions",
    },
    "groups and transactions": {
        "consumer-groups": "list and describe groups, reset and delete their offsets",
        "groups": "list groups of every kind",
        "transactions": "list, describe and abort transactions",
    },
    "the cluster": {
        "cluster": "start several brokers here; print a cluster's id and brokers, take one off its list",
        "cluster-status": "tell who decides, which brokers live, and which partitions have no leader",
        "features": "print and change the cluster's feature levels",
        "broker-api-versions": "print the requests that each broker serves",
        "log-dirs": "print what lies in the brokers' log directories",
        "leader-election": "have leaders elected anew",
        "reassign-partitions": "move partitions to other brokers",
        "replica-verification": "check that all replicas hold the same records",
        "metadata": "give a coordinator that was lost what brokers have kept of it",
    },
    "measuring": {
        "producer-perf-test": "measure how fast records can be sent",
        "consumer-perf-test": "measure how fast records can be read",
        "end-to-end-latency": "measure the time from sending a record to reading it",
        "verifiable-producer": "send numbered records and print each acknowledgement as JSON",
        "verifiable-consumer": "read in a group and print what happens as JSON",
    },
    "pipelines and shell": {
        "pipeline": "check and run pipelines on Spark",
        "aliases": "write Kafka's scripts, so that what calls them runs unchanged",
        "completion": "print the shell's completion of this command",
    },
}
"""Each tool is a module of this package with `add_arguments(parser)` and `run(arguments) -> exit code`."""

TOOLS: Final = {name: summary for tools in SECTIONS.values() for name, summary in tools.items()}

OTHER_NAMES: Final = {"server-start": "serve", "server-stop": "stop", "e2e-latency": "end-to-end-latency"}
"""Scripts of Kafka's whose names say something else than the tool's."""

OURS: Final = frozenset(
    {
        "serve",
        "ps",
        "stop",
        "zookeeper",
        "doctor",
        "metrics",
        "end-to-end-latency",
        "pipeline",
        "aliases",
        "completion",
        "metadata",
        "cluster-status",
    }
)
"""Tools that no script of Kafka's is named after."""

SCRIPTS: Final = {
    **{f"kafka-{name}.sh": name for name in TOOLS if name not in OURS},
    **{f"kafka-{other}.sh": name for other, name in OTHER_NAMES.items()},
}
"""Kafka's scripts, and the tool that each stands for."""


def canonical_name(name: str) -> str:
    """
    >>> canonical_name("kafka-topics.sh"), canonical_name("kafka-server-start.sh"), canonical_name("serve")
    ('topics', 'serve', 'serve')
    """
    bare = name.removesuffix(".sh").removesuffix(".bat").removeprefix("kafka-")
    return OTHER_NAMES.get(bare, bare)
