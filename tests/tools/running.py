"""Runs a tool: ours in this process, Apache's in a Java process of its own."""

import io
import subprocess
import sys

from levada.cli.main import main
from tests.interop.apache_broker import java
from tests.tools.scenario import Ran

APACHE_SECONDS = 90

APACHES = {
    "broker-api-versions": "BrokerApiVersionsCommand",
    "cluster": "ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": "consumer.ConsoleConsumer",
    "console-producer": "ConsoleProducer",
    "consumer-groups": "consumer.group.ConsumerGroupCommand",
    "consumer-perf-test": "ConsumerPerformance",
    "delete-records": "DeleteRecordsCommand",
    "end-to-end-latency": "EndToEndLatency",
    "features": "FeatureCommand",
    "get-offsets": "GetOffsetShell",
    "groups": "GroupsCommand",
    "leader-election": "LeaderElectionCommand",
    "log-dirs": "LogDirsCommand",
    "producer-perf-test": "ProducerPerformance",
    "reassign-partitions": "reassign.ReassignPartitionsCommand",
    "replica-verification": "ReplicaVerificationTool",
    "topics": "TopicCommand",
    "transactions": "TransactionsCommand",
    "verifiable-consumer": "VerifiableConsumer",
    "verifiable-producer": "VerifiableProducer",
}
"""The Java class of each tool, in org.apache.kafka.tools unless it says where it is."""


def run_ours(arguments: list[str], stdin: str = "") -> Ran:
    """In this process: a Python for each command would take most of the time."""
    before = sys.stdin, sys.stdout, sys.stderr
    out, err = io.BytesIO(), io.BytesIO()
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(out, encoding="utf-8")
    sys.stderr = io.TextIOWrapper(err, encoding="utf-8")
    try:
        try:
            code = main(arguments)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        sys.stdout.flush()
        sys.stderr.flush()
        return Ran(code, out.getvalue().decode(), err.getvalue().decode())
    finally:
        sys.stdin, sys.stdout, sys.stderr = before


def run_apaches(arguments: list[str], stdin: str = "") -> Ran:
    tool, *rest = arguments
    name = APACHES[tool]
    command = java(
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", name if "kafka." in name else f"org.apache.kafka.tools.{name}"
    )
    done = subprocess.run(
        [*command, *rest], input=stdin, capture_output=True, text=True, timeout=APACHE_SECONDS, check=False
    )
    return Ran(done.returncode, done.stdout, done.stderr)
