"""A tool that meets no broker says so in one line and in seconds; one that reads a mistyped topic creates nothing."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from levada import Admin, NewTopic
from tests.brokers import BrokerProcess
from tests.strangers import STRANGERS, stranger
from tests.tools.running import APACHES, run_ours

LIMIT_SECONDS = 20.0
"""Far above what it takes, on a busy machine too; a client that just went on trying took longer."""
AT_ONCE = 2
"""Processes: each takes half a second of a core to start, which must not count as waiting."""

FLAGS: dict[str, list[str]] = {
    "cluster": ["cluster-id"],
    "configs": ["--describe", "--topic", "orders"],
    "console-consumer": ["--topic", "orders"],
    "console-producer": ["--topic", "orders"],
    "consumer-groups": ["--list"],
    "consumer-perf-test": ["--topic", "orders", "--num-records", "1"],
    "end-to-end-latency": ["--topic", "orders", "--num-records", "1", "--producer-acks", "1", "--record-size", "10"],
    "features": ["describe"],
    "groups": ["--list"],
    "leader-election": ["--election-type", "preferred", "--all-topic-partitions"],
    "log-dirs": ["--describe"],
    "producer-perf-test": ["--topic", "orders", "--num-records", "1", "--record-size", "1", "--throughput", "-1"],
    "reassign-partitions": ["--list"],
    "replica-verification": ["--topics-include", "orders"],
    "topics": ["--list"],
    "transactions": ["list"],
    "verifiable-consumer": ["--topic", "orders", "--group-id", "readers"],
    "verifiable-producer": ["--topic", "orders", "--max-messages", "1"],
}
"""Enough for each tool to have something to do."""


def run_apart(tool: str, address: str, directory: Path) -> tuple[float, "subprocess.CompletedProcess[str]"]:
    flags = [*FLAGS.get(tool, []), "--bootstrap-server", address]
    if tool == "delete-records":
        plan = directory / "plan.json"
        plan.write_text('{"partitions": [{"topic": "orders", "partition": 0, "offset": 1}], "version": 1}')
        flags += ["--offset-json-file", str(plan)]
    # The actions of these come last.
    order = [*flags[1:], flags[0]] if tool in ("features", "transactions") else flags
    command = [sys.executable, "-m", "levada", tool, *order]
    began = time.monotonic()
    ran = subprocess.run(command, capture_output=True, text=True, input="", timeout=60, check=False)
    return time.monotonic() - began, ran


def test_every_tool_ends_with_one_line_in_seconds(tmp_path: Path) -> None:
    with stranger("silent") as address, ThreadPoolExecutor(AT_ONCE) as pool:
        started = {tool: pool.submit(run_apart, tool, address, tmp_path) for tool in APACHES}
        ended = {tool: each.result() for tool, each in started.items()}
    for tool, (seconds, ran) in ended.items():
        assert ran.returncode == 1, (tool, ran)
        said = [line for line in ran.stderr.splitlines() if not line.startswith("Processed a total of 0")]
        assert len(said) == 1, (tool, ran.stderr)
        assert said[0].startswith("levada: no Kafka broker answers: "), tool
        assert STRANGERS["silent"] in said[0], tool
        assert seconds < LIMIT_SECONDS, tool


@pytest.mark.parametrize(
    ("topic", "said"),
    [
        ("ordrs", "levada: there is no topic ordrs; did you mean orders? Waiting for it\n"),
        ("bananas", "levada: there is no topic bananas yet: waiting for it\n"),
    ],
)
def test_reading_a_mistyped_topic_names_the_near_one_and_creates_nothing(tmp_path: Path, topic: str, said: str) -> None:
    broker = BrokerProcess(tmp_path / "data").start()
    try:
        with Admin(broker.bootstrap) as admin:
            admin.create_topics([NewTopic("orders")]).raise_any()
            ran = run_ours(["console-consumer", "--topic", topic, "--timeout-ms", "500", "--bootstrap-server",
                            broker.bootstrap])  # fmt: skip
            assert (ran.code, ran.err) == (0, f"{said}Processed a total of 0 messages\n")
            assert topic not in admin.list_topics()
    finally:
        assert broker.stop() == 0
