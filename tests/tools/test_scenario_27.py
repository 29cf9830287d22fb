"""A topic's description: one line for the topic, one led by a tab for each partition."""

import re
from pathlib import Path

from levada.cli.kit.parser import ToolParser
from levada.cli.topics import add_arguments
from levada.cli.topics.describing import DescribedPartition, DescribedTopic
from levada.cli.topics.layout import lines_of
from levada.client.admin import PartitionDescription, TopicId
from tests.tools.running import run_ours
from tests.tools.stages import our_stage

PARTITIONS = 16


def test_scenario_27_describe_shows_a_topic_with_its_partitions(tmp_path: Path) -> None:
    with our_stage(tmp_path) as stage:
        server = ["--bootstrap-server", stage.bootstrap]
        shape = ["--partitions", str(PARTITIONS), "--config", "segment.bytes=1073741824"]
        assert run_ours(["topics", "--create", "--topic", "second", *shape, *server]).code == 0
        described = run_ours(["topics", "--describe", "--topic", "second", *server])
    assert described.code == 0
    topic, *partitions = described.out.splitlines()
    assert re.fullmatch(
        r"Topic: second\tTopicId: [A-Za-z0-9_-]{22}\tPartitionCount: 16\tReplicationFactor: 1"
        r"\tConfigs: segment.bytes=1073741824",
        topic,
    )
    assert partitions == [
        f"\tTopic: second\tPartition: {index}\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: "
        for index in range(PARTITIONS)
    ]


def test_scenario_27_with_three_replicas() -> None:
    partitions = [
        DescribedPartition(
            topic="second",
            info=PartitionDescription(index, leader, 0, brokers, brokers, (), (), ()),
            move=None,
            min_in_sync=2,
            is_leader_up=True,
        )
        for index in range(PARTITIONS)
        for leader in [index % 3 + 1]
        for brokers in [(leader, leader % 3 + 1, (leader + 1) % 3 + 1)]
    ]
    topic_id = TopicId.parse("AAAAAAAAAAAAAAAAAAAAAQ")
    parser = ToolParser(prog="levada topics")
    add_arguments(parser)
    described = DescribedTopic("second", topic_id, {"segment.bytes": "1073741824"}, partitions)
    topic, *shown = lines_of(described, parser.read(["--describe"]))
    assert topic == (
        "Topic: second\tTopicId: AAAAAAAAAAAAAAAAAAAAAQ\tPartitionCount: 16\tReplicationFactor: 3"
        "\tConfigs: segment.bytes=1073741824"
    )
    assert len(shown) == PARTITIONS
    assert shown[0] == "\tTopic: second\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2,3\tElr: \tLastKnownElr: "
    assert shown[15] == "\tTopic: second\tPartition: 15\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2,3\tElr: \tLastKnownElr: "
    assert shown[1] == "\tTopic: second\tPartition: 1\tLeader: 2\tReplicas: 2,3,1\tIsr: 2,3,1\tElr: \tLastKnownElr: "
