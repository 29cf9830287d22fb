"""Moves, elections and verification on three Apache brokers: what our tools begin, Apache's see, and the other way."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from levada import Admin, Producer
from levada.client.admin import NewTopic
from levada.client.types import TopicPartition
from tests.interop.apache_broker import java
from tests.interop.test_our_admin_on_apache_cluster import BROKERS, ApacheCluster
from tests.tools.following import followed, ours
from tests.tools.running import run_apaches, run_ours
from tests.tools.scenario import Ran, Runner
from tests.tools.stages import wait_until

pytestmark = pytest.mark.usefixtures("apache_jars")

VALUE_BYTES = 100_000
TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, apache_jars: None) -> Iterator[ApacheCluster]:
    cluster = ApacheCluster(tmp_path_factory.mktemp("apache-cluster"))
    try:
        cluster.start(*BROKERS)
        yield cluster
    finally:
        cluster.kill(*BROKERS)


class Tools:
    """Our tools and Apache's, on one cluster and with one directory for files."""

    def __init__(self, cluster: ApacheCluster, directory: Path) -> None:
        self._bootstrap = cluster.bootstrap
        self._directory = directory

    def run(self, runner: Runner, line: str) -> Ran:
        words = [word.replace("@", f"{self._directory}/") for word in shlex.split(line)]
        return runner([*words, "--bootstrap-server", self._bootstrap], "")

    def ours(self, line: str) -> str:
        return self._done(self.run(run_ours, line), line)

    def apaches(self, line: str) -> str:
        return self._done(self.run(run_apaches, line), line)

    def both(self, line: str) -> str:
        """The text that both print."""
        text = self.ours(line)
        assert text == self.apaches(line)
        return text

    def write_plan(self, name: str, topic: str, *replicas: list[int]) -> None:
        partitions = [
            {"topic": topic, "partition": index, "replicas": brokers} for index, brokers in enumerate(replicas)
        ]
        self.write(name, json.dumps({"version": 1, "partitions": partitions}))

    def write(self, name: str, text: str) -> None:
        (self._directory / name).write_text(text)

    def _done(self, ran: Ran, line: str) -> str:
        assert ran.code == 0, f"{line}\n{ran.out}\n{ran.err}"
        return ran.out


@pytest.fixture
def tools(cluster: ApacheCluster, tmp_path: Path) -> Tools:
    return Tools(cluster, tmp_path)


def create(cluster: ApacheCluster, topic: str, *replicas: list[int], count: int = 0) -> None:
    with Admin(cluster.bootstrap) as admin:
        assignments = dict(enumerate(replicas))
        admin.create_topics([NewTopic(topic, assignments=assignments)]).raise_any()
        wait_until(lambda: topic in admin.describe_topics([topic]).done)
    produce(cluster, topic, len(replicas), count)


def produce(cluster: ApacheCluster, topic: str, partitions: int, count: int) -> None:
    with Producer(cluster.bootstrap, linger_ms=0) as producer:
        for number in range(count):
            producer.send(topic, bytes(VALUE_BYTES), partition=number % partitions)


def wait_for_leader(cluster: ApacheCluster, topic: str, broker: int) -> None:
    with Admin(cluster.bootstrap) as admin:
        wait_until(lambda: admin.describe_topics([topic])[topic].partitions[0].leader == broker)


def verified(topic: str, count: int) -> str:
    lines = [f"Reassignment of partition {topic}-{index} is completed." for index in range(count)]
    return "\n".join(["Status of partition reassignment:", *lines, "", ""])


def test_what_ours_moves_apaches_verifies_and_takes_back(cluster: ApacheCluster, tools: Tools) -> None:
    create(cluster, "three", [1, 2], [2, 3], [3, 1], count=30)
    tools.write_plan("plan.json", "three", [3, 1], [1, 2], [2, 3])
    *begun, started = tools.ours("reassign-partitions --execute --reassignment-json-file @plan.json").splitlines()
    assert begun[0] == "Current partition replica assignment"
    assert started == "Successfully started partition reassignments for three-0,three-1,three-2"
    verify = "reassign-partitions --verify --reassignment-json-file @plan.json"
    wait_until(lambda: tools.ours(f"{verify} --preserve-throttles") == verified("three", 3))
    assert tools.both(verify) == verified("three", 3) + (
        "Clearing broker-level throttles on brokers 1,2,3\nClearing topic-level throttles on topic three\n"
    )

    # Back to where it was, directories too, as ours said before it began.
    tools.write("back.json", begun[2])
    back = tools.apaches("reassign-partitions --execute --reassignment-json-file @back.json --timeout 30000")
    assert started in back
    verify = "reassign-partitions --verify --reassignment-json-file @back.json --preserve-throttles"
    wait_until(lambda: "progress" not in tools.ours(verify))
    text = tools.both(verify)
    assert text.count("is completed.") == 3
    assert text.count("completed successfully.") == 6
    with Admin(cluster.bootstrap) as admin:
        found = admin.describe_topics(["three"])["three"].partitions
    assert [one.replicas for one in found] == [(1, 2), (2, 3), (3, 1)]


def test_a_slow_move_is_listed_refused_throttled_and_cancelled(cluster: ApacheCluster, tools: Tools) -> None:
    create(cluster, "slow", [1], count=60)
    tools.write_plan("plan.json", "slow", [2])
    execute = "reassign-partitions --execute --reassignment-json-file @plan.json"
    begun = tools.ours(f"{execute} --throttle 1024")
    assert "The inter-broker throttle limit was set to 1024 B/s\n" in begun
    listed = tools.both("reassign-partitions --list")
    assert listed == "Current partition reassignments:\nslow-0: replicas: 2,1. adding: 2. removing: 1.\n"
    underway = "Status of partition reassignment:\nReassignment of partition slow-0 is still in progress.\n\n"
    assert tools.both("reassign-partitions --verify --reassignment-json-file @plan.json") == underway
    for runner in (run_ours, run_apaches):
        refused = tools.run(runner, execute)
        assert refused.code == 1
        assert "Cannot execute because there is an existing partition assignment." in refused.out + refused.err
    assert "limit was set to 2048 B/s" in tools.ours(f"{execute} --throttle 2048 --additional")
    cancelled = tools.ours("reassign-partitions --cancel --reassignment-json-file @plan.json")
    assert cancelled.splitlines() == [
        "Successfully cancelled partition reassignment for: slow-0",
        "None of the specified partition moves are active.Clearing broker-level throttles on brokers 1,2,3",
        "Clearing topic-level throttles on topic slow",
    ]
    assert tools.both("reassign-partitions --list") == "No partition reassignments found.\n"


def test_a_proposal_of_ours_is_one_that_brokers_take(cluster: ApacheCluster, tools: Tools) -> None:
    create(cluster, "spread", [1, 2], [1, 2], [1, 2], [1, 2])
    tools.write("topics.json", '{"topics":[{"topic":"spread"}],"version":1}')
    lines = tools.ours(
        "reassign-partitions --generate --topics-to-move-json-file @topics.json --broker-list 2,3"
    ).splitlines()
    theirs = tools.apaches(
        "reassign-partitions --generate --topics-to-move-json-file @topics.json --broker-list 2,3"
    ).splitlines()
    assert lines[:4] == theirs[:4]
    proposed = json.loads(lines[4])["partitions"]
    assert [sorted(one["replicas"]) for one in proposed] == [[2, 3]] * 4
    assert sorted(one["replicas"][0] for one in proposed) == [2, 2, 3, 3]
    tools.write("plan.json", lines[4])
    tools.ours("reassign-partitions --execute --reassignment-json-file @plan.json")
    verify = "reassign-partitions --verify --reassignment-json-file @plan.json --preserve-throttles"
    wait_until(lambda: tools.ours(verify) == verified("spread", 4))


def test_leaders_are_elected_by_both(cluster: ApacheCluster, tools: Tools) -> None:
    create(cluster, "led", [1, 2], count=1)
    elect = "leader-election --election-type preferred --topic led --partition 0"
    for tool, replicas in ((tools.ours, [2, 1]), (tools.apaches, [1, 2])):
        tools.write_plan("plan.json", "led", replicas)
        tools.ours("reassign-partitions --execute --reassignment-json-file @plan.json")
        assert tool(elect) == "Successfully completed leader election (PREFERRED) for partitions led-0\n"
        wait_for_leader(cluster, "led", replicas[0])
        assert tools.both(elect) == "Valid replica already elected for partitions led-0\n"


def test_both_see_a_replica_that_lags_and_one_that_caught_up(cluster: ApacheCluster) -> None:
    create(cluster, "watched", [1, 3], count=2)
    partition = TopicPartition("watched", 0)
    flags = ["--broker-list", cluster.bootstrap, "--topics-include", "watched", "--time", "-2"]
    flags += ["--report-interval-ms", "100", "--max-wait-ms", "200"]
    apaches = java("org.apache.kafka.tools.ReplicaVerificationTool", *flags)
    with followed(*ours("replica-verification", *flags)) as our, followed(*apaches) as their:
        for tool in (our, their):
            tool.until(f"{TIME}: verification process is started")
            tool.until(f"{TIME}: max lag is 0 for partition {partition} at offset 2 among 1 partitions")
        cluster.kill(3)
        produce(cluster, "watched", 1, 5)
        for tool in (our, their):
            tool.until(f"{TIME}: max lag is 5 for partition {partition} at offset 2 among 1 partitions")
        cluster.start(3)
        for tool in (our, their):
            tool.until(f"{TIME}: max lag is 0 for partition {partition} at offset 7 among 1 partitions")
