"""Brokers with two directories of logs, ours and Apache's: the same answers, the same tools, and the same files."""

import asyncio
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from levada import Admin, Consumer, Producer
from levada.client.admin import ConfigResource, NewTopic, OffsetSpec, Replica
from levada.client.types import TopicPartition
from levada.net.channel import Channel
from levada.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from levada.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from levada.world.real_net import RealNet
from tests.brokers import BrokerProcess
from tests.interop.apache_broker import SETTINGS, ApacheBroker
from tests.interop.test_apache_differential import NODE_SETTINGS
from tests.tools.running import run_apaches, run_ours
from tests.tools.scenario import Ran
from tests.tools.stages import wait_until

pytestmark = pytest.mark.usefixtures("apache_jars")

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
ALTER_VERSIONS, DESCRIBE_VERSIONS = (1, 2), (1, 2, 3, 4, 5)
LONG = "x" * 240
PARTITIONS = 2
RECORDS = 400
"""Of six kilobytes: more than a segment, for the end of a log is not copied slowly."""


@dataclass(frozen=True, slots=True)
class Side:
    """A broker with its directories, the first and the second."""

    bootstrap: str
    paths: tuple[Path, ...]

    def call(self, request: Any, version: int) -> Any:
        async def main() -> Any:
            host, _, port = self.bootstrap.partition(":")
            channel = await Channel.connect(RealNet(), host, int(port))
            try:
                return await asyncio.wait_for(channel.call(request, version), 20)
            finally:
                channel.close()

        return asyncio.run(main())

    def alter(self, version: int, *orders: tuple[str, str, list[int]]) -> dict[str, int]:
        """Codes of partitions by their names; orders are of a path, which may have `{0}`, a topic and partitions."""
        request = AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path=path.format(*self.paths), topics=[AlterReplicaLogDirTopic(name=topic, partitions=indexes)]
                )
                for path, topic, indexes in orders
            ]
        )
        answer = self.call(request, version)
        return {
            f"{topic.topic_name}-{one.partition_index}": one.error_code
            for topic in answer.results
            for one in topic.partitions
        }

    def describe(self, version: int, *topics: tuple[str, list[int]], is_sized: bool = True) -> dict[str, Any]:
        """By the number of the directory: its code, its replicas, and whether it tells of its volume."""
        wanted = [DescribableLogDirTopic(topic=topic, partitions=indexes) for topic, indexes in topics]
        answer = self.call(DescribeLogDirsRequest(topics=wanted or None), version)
        numbers = {str(path): number for number, path in enumerate(self.paths)}
        found: dict[str, Any] = {"code": answer.error_code}
        for one in answer.results:
            replicas = {
                f"{topic.name}-{replica.partition_index}{' future' if replica.is_future_key else ''}": (
                    (replica.partition_size, replica.offset_lag) if is_sized else ()
                )
                for topic in one.topics
                for replica in topic.partitions
                if not topic.name.startswith("__")
            }
            found[f"directory {numbers[one.log_dir]}"] = (
                one.error_code, replicas, one.total_bytes > 0, one.usable_bytes > 0, one.is_cordoned
            )  # fmt: skip
        return found

    def places(self, topic: str) -> dict[int, int]:
        """The number of the directory that has each partition, and of no move under way."""
        with Admin(self.bootstrap) as admin:
            found = admin.describe_replica_log_dirs([Replica(topic, index, 1) for index in range(PARTITIONS)])
            return {
                replica.partition: -1 if one.future_path or one.path is None else self.paths.index(Path(one.path))
                for replica, one in found.items()
            }

    def limit_moves(self, bytes_per_second: int | None) -> None:
        rate = None if bytes_per_second is None else str(bytes_per_second)
        broker = ConfigResource.broker(1)
        with Admin(self.bootstrap) as admin:
            admin.incremental_alter_configs({broker: {RATE: rate}}).raise_any()

            def is_set() -> bool:
                entry = admin.describe_configs([broker])[broker].get(RATE)
                return (None if entry is None or entry.is_default else entry.value) == rate

            wait_until(is_set)


@dataclass(frozen=True, slots=True)
class Pair:
    apache: Side
    ours: Side

    def both(self, ask: Callable[[Side], Any]) -> Any:
        """What both say, which must be the same."""
        theirs, mine = ask(self.apache), ask(self.ours)
        assert mine == theirs
        return theirs

    def settle(self, ask: Callable[[Side], Any], expected: Any) -> None:
        """Apache's broker learns a little later what was decided."""
        for side in (self.apache, self.ours):
            wait_until(lambda side=side: ask(side) == expected)  # type: ignore[misc]

    def each(self, do: Callable[[Side], object]) -> None:
        do(self.apache)
        do(self.ours)

    def create(self, topic: str) -> None:
        """Partitions in both directories, the first in the first, with records in each."""
        self.each(lambda side: create(side, topic))
        self.settle(lambda side: side.places(topic), {0: 0, 1: 1})


def create(side: Side, topic: str) -> None:
    with Admin(side.bootstrap) as admin:
        side.alter(2, *((f"{{{index}}}", topic, [index]) for index in range(PARTITIONS)))
        admin.create_topics([NewTopic(topic, PARTITIONS)]).raise_any()
        partitions = {TopicPartition(topic, index): OffsetSpec.LATEST for index in range(PARTITIONS)}
        wait_until(lambda: not admin.list_offsets(partitions).errors)
    with Producer(side.bootstrap, batch_size=0, linger_ms=0) as producer:
        for number in range(RECORDS):
            for index in range(PARTITIONS):
                producer.send(topic, b"%d " % number + b"x" * 6_000, partition=index)
            producer.flush()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, apache_jars: None) -> Iterator[Pair]:
    root = tmp_path_factory.mktemp("two-directories")
    apache = ApacheBroker(root / "apache", "second")
    settings = [f"{name}={value}" for name, value in SETTINGS.items() if name not in NODE_SETTINGS]
    ours = BrokerProcess(root / "first", *settings, more_directories=[root / "second"])
    try:
        apache.start()
        ours.start()
        yield Pair(Side(apache.bootstrap, tuple(apache.data_directories)), Side(ours.bootstrap, ours.data_directories))
    finally:
        apache.kill()
        ours.kill()
    assert "Traceback" not in ours.log, ours.log


# Answers


@pytest.mark.parametrize("version", ALTER_VERSIONS)
def test_orders_to_move_have_the_same_answers(pair: Pair, version: int) -> None:
    topic = f"orders-{version}"
    pair.create(topic)
    orders: list[list[tuple[str, str, list[int]]]] = [
        [("{0}/nowhere", topic, [0])],
        [("first", topic, [0])],
        [("", topic, [0])],
        [("{0}/", topic, [0])],
        [("{1}", "nothing", [0, 7])],
        [("{1}", topic, [PARTITIONS, -1])],
        [("{1}", LONG, [0])],
        [("{0}/nowhere", LONG, [0])],
        [("{0}/nowhere", "nothing", [0])],
        [("{1}", "bad/name", [0])],
        [("{0}", topic, [0])],
        [("{1}", topic, [])],
        [],
        [("{0}", topic, [0]), ("{1}", "nothing", [0]), ("{0}/nowhere", topic, [1])],
        [("{1}", topic, [0]), ("{0}", topic, [0])],
    ]
    differing = {}
    for order in orders:
        theirs, mine = pair.apache.alter(version, *order), pair.ours.alter(version, *order)
        if theirs != mine:
            differing[str(order)] = theirs, mine
    assert not differing
    pair.settle(lambda side: side.places(topic), {0: 0, 1: 1})


@pytest.mark.parametrize("version", DESCRIBE_VERSIONS)
def test_descriptions_are_the_same(pair: Pair, version: int) -> None:
    topic = f"described-{version}"
    pair.create(topic)
    pair.both(lambda side: side.describe(version, (topic, [0, 1])))
    pair.both(lambda side: side.describe(version, (topic, [1, 7, -1]), ("nothing", [0])))
    pair.both(lambda side: side.describe(version, ("nothing", [0])))
    pair.both(lambda side: side.describe(version, (topic, [])))
    everything = pair.both(lambda side: side.describe(version))
    assert f"{topic}-0" in everything["directory 0"][1]


def test_a_move_is_described_the_same_before_while_and_after(pair: Pair) -> None:
    pair.create("moving")
    wanted = ("moving", [0, 1])
    pair.both(lambda side: side.describe(4, wanted))
    pair.each(lambda side: side.limit_moves(100))
    assert pair.both(lambda side: side.alter(2, ("{1}", "moving", [0]))) == {"moving-0": 0}
    while_moving = pair.both(lambda side: side.describe(4, wanted, is_sized=False))
    assert "moving-0 future" in while_moving["directory 1"][1]
    # The same order again changes nothing, and the other way round takes it back.
    pair.both(lambda side: side.alter(2, ("{1}", "moving", [0])))
    assert pair.both(lambda side: side.describe(4, wanted, is_sized=False)) == while_moving
    pair.both(lambda side: side.alter(2, ("{0}", "moving", [0])))
    pair.settle(lambda side: side.places("moving"), {0: 0, 1: 1})
    pair.both(lambda side: side.describe(4, wanted))
    pair.both(lambda side: side.alter(2, ("{1}", "moving", [0]), ("{0}", "moving", [1])))
    pair.each(lambda side: side.limit_moves(None))
    pair.settle(lambda side: side.places("moving"), {0: 1, 1: 0})
    pair.both(lambda side: side.describe(4, wanted))


# Tools


Tool = Callable[[list[str]], Ran]


def play(side: Side, run: Tool, topic: str, directory: Path) -> list[tuple[int, list[str]]]:
    """A move that is executed, verified, called off, and executed again; what was printed."""
    create(side, topic)
    wait_until(lambda: side.places(topic) == {0: 0, 1: 1})
    wanted = [{"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [str(side.paths[1])]}]
    path = directory / f"{topic}.json"
    path.write_text(json.dumps({"version": 1, "partitions": wanted}))
    said: list[tuple[int, list[str]]] = []

    def step(tool: str, *flags: str) -> str:
        ran = run([tool, "--bootstrap-server", side.bootstrap, *flags])
        said.append((ran.code, [line.replace(topic, "TOPIC") for line in ran.out.splitlines()]))
        return ran.out

    plan = ["--reassignment-json-file", str(path)]
    step("log-dirs", "--describe", "--topic-list", topic)
    step("reassign-partitions", *plan, "--execute", "--replica-alter-log-dirs-throttle", "100")
    step("reassign-partitions", *plan, "--verify")
    step("reassign-partitions", *plan, "--cancel")
    wait_until(lambda: side.places(topic) == {0: 0, 1: 1})
    step("reassign-partitions", *plan, "--verify")
    step("reassign-partitions", *plan, "--cancel")
    step("reassign-partitions", *plan, "--execute")
    wait_until(lambda: side.places(topic) == {0: 1, 1: 1})
    step("reassign-partitions", *plan, "--verify")
    step("log-dirs", "--describe", "--topic-list", topic)
    return said


@pytest.mark.parametrize("whose", ["apache", "ours"])
def test_apaches_tools_and_ours_say_the_same_of_moves(pair: Pair, whose: str, tmp_path: Path) -> None:
    side: Side = getattr(pair, whose)
    theirs = play(side, run_apaches, f"their-tools-{whose}", tmp_path)
    mine = play(side, run_ours, f"our-tools-{whose}", tmp_path)
    assert sorted_partitions(mine) == sorted_partitions(theirs)
    assert all(code == 0 for code, _ in mine)


def sorted_partitions(said: list[tuple[int, list[str]]]) -> list[tuple[int, list[Any]]]:
    """With JSON documents read: Apache's have no order of partitions."""

    def read(line: str) -> Any:
        if not line.startswith('{"brokers"'):
            return line
        document = json.loads(line)
        for broker in document["brokers"]:
            broker["logDirs"].sort(key=lambda one: one["logDir"])
            for one in broker["logDirs"]:
                one["partitions"].sort(key=lambda partition: partition["partition"])
        return document

    return [(code, [read(line) for line in lines]) for code, lines in said]


# Files


def test_apache_goes_on_with_directories_in_which_ours_moved_logs(tmp_path: Path) -> None:
    apache = ApacheBroker(tmp_path / "apache", "second")
    side = Side(apache.bootstrap, tuple(apache.data_directories))
    try:
        apache.start()
        create(side, "t")
        wait_until(lambda: side.places("t") == {0: 0, 1: 1})
        apache.stop()
        ours = BrokerProcess(side.paths[0], more_directories=side.paths[1:]).start()
        try:
            mine = Side(ours.bootstrap, side.paths)
            assert mine.places("t") == {0: 0, 1: 1}
            mine.alter(2, ("{1}", "t", [0]), ("{0}", "t", [1]))
            wait_until(lambda: mine.places("t") == {0: 1, 1: 0})
            assert read(mine) == [list(range(RECORDS))] * PARTITIONS
        finally:
            assert ours.stop() == 0
        # All that is not a partition's is Apache's to complain about.
        shutil.rmtree(side.paths[0] / "coordinator")
        apache.start()
        assert side.places("t") == {0: 1, 1: 0}
        assert read(side) == [list(range(RECORDS))] * PARTITIONS
        with Producer(side.bootstrap) as producer:
            offsets = [producer.send("t", b"more", partition=index).result(30).offset for index in range(PARTITIONS)]
        assert offsets == [RECORDS] * PARTITIONS
        side.alter(2, ("{0}", "t", [0]))
        wait_until(lambda: side.places("t") == {0: 0, 1: 0})
    finally:
        apache.kill()


def read(side: Side) -> list[list[int]]:
    """The numbers of all records of each partition, in their order."""
    found = []
    with Consumer(side.bootstrap, auto_offset_reset="earliest") as consumer:
        for index in range(PARTITIONS):
            partition = TopicPartition("t", index)
            consumer.assign([partition])
            end = consumer.end_offsets([partition])[partition]
            numbers: list[int] = []
            while consumer.position(partition) < end:
                numbers += [int((one.value or b"").split()[0]) for one in consumer.poll(1.0)]
            found.append(numbers)
    return found
