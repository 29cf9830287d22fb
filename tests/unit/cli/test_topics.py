"""`levada topics`: its flags, and the text of a description."""

import argparse
import doctest
import io
import sys

import pytest

from levada.cli.kit.parser import ToolParser
from levada.cli.main import main
from levada.cli.topics import add_arguments, flags, layout
from levada.cli.topics.describing import DescribedPartition, DescribedTopic
from levada.cli.topics.layout import is_shown, json_of, lines_of
from levada.client.admin import PartitionDescription, PartitionReassignment, TopicId

ID = TopicId.parse("AAAAAAAAAAAAAAAAAAAAAQ")


def parsed(line: str) -> argparse.Namespace:
    parser = ToolParser(prog="levada topics")
    add_arguments(parser)
    return parser.read(line.split())


def partition(
    index: int = 0,
    *,
    leader: int | None = 1,
    replicas: tuple[int, ...] = (1, 2, 3),
    in_sync: tuple[int, ...] = (1, 2, 3),
    eligible: tuple[int, ...] | None = (),
    move: PartitionReassignment | None = None,
    is_leader_up: bool = True,
) -> DescribedPartition:
    info = PartitionDescription(index, leader, 0, replicas, in_sync, (), eligible, eligible)
    return DescribedPartition("second", info, move, min_in_sync=2, is_leader_up=is_leader_up)


def lines(line: str, *partitions: DescribedPartition, configs: dict[str, str | None] | None = None) -> list[str]:
    return list(lines_of(DescribedTopic("second", ID, configs or {}, partitions), parsed(line)))


def test_examples() -> None:
    result = doctest.testmod(flags)
    assert result.attempted
    assert not result.failed


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--list --describe", "argument --describe: not allowed with argument --list (see levada topics --help)"),
        ("--create", "--create needs --topic"),
        ("--delete", "--delete needs --topic"),
        ("--alter --topic a", "--alter needs --partitions"),
        ("--list --partitions 2", "--partitions goes with --create, --alter only, not with --list"),
        ("--list --json --if-exists", "--if-exists goes with --alter, --delete, --describe only, not with --list"),
        ("--list --if-not-exists", "--if-not-exists goes with --create only, not with --list"),
        ("--create --topic a --json", "--json goes with --list, --describe only, not with --create"),
        ("--create --topic a --exclude-internal", "--exclude-internal goes with --list, --describe only, not with"),
        ("--list --at-min-isr-partitions", "--at-min-isr-partitions goes with --describe only, not with --list"),
        ("--alter --topic a --partitions 2 --replication-factor 2", "--replication-factor goes with --create only"),
        ("--alter --topic a --partitions 2 --config a=1", "--alter changes no settings: use `levada configs"),
        ("--describe --if-exists", "--describe --if-exists needs --topic or --topic-id"),
        ("--describe --topics-with-overrides --unavailable-partitions", "--topics-with-overrides shows no partitions"),
        ("--create --topic a --replica-assignment 1 --partitions 1", "--replica-assignment says already what"),
        (
            "--create --topic a --replica-assignment 1:1",
            "argument --replica-assignment: partition 0 has a broker twice",
        ),
        ("--create --topic a --replica-assignment 1:2,1", "argument --replica-assignment: partition 1 has another"),
        ("--create --topic a --replica-assignment one", "argument --replica-assignment: 'one' is not a whole number"),
        ("--create --topic a --replication-factor 32768", "argument --replication-factor: '32768' is not between 1"),
        ("--create --topic a --partitions many", "argument --partitions: 'many' is not a whole number"),
        ("--create --topic a --config retention.ms", "argument --config: 'retention.ms' is not KEY=VALUE"),
        ("--create --topic a --config a=b=c", "argument --config: 'a=b=c' is not KEY=VALUE"),
        ("--describe --topic-id short", "argument --topic-id: not an id of 22 characters: 'short'"),
        ("--describe --partition-size-limit-per-response 0", "argument --partition-size-limit-per-response: '0' is"),
    ],
)
def test_flags_that_make_no_sense_are_one_line(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code: object = main(["topics", *line.split()])
    except SystemExit as end:
        code = end.code
    captured = capsys.readouterr()
    assert code == 2
    assert captured.err.startswith(f"levada: {said}")
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_a_flag_of_older_days_is_answered_with_what_to_use(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = parsed("--alter --topic a --partitions 2 --delete-config retention.ms")
    flags.check(arguments)
    assert "use `levada configs --alter --topic NAME --delete-config KEY`" in capsys.readouterr().err


def test_a_topic_with_three_replicas() -> None:
    assert lines(
        "--describe",
        partition(0),
        partition(1, leader=None, in_sync=(2,), eligible=(3,), is_leader_up=False),
        partition(2, eligible=None),
        configs={"segment.bytes": "1", "secret": None},
    ) == [
        f"Topic: second\tTopicId: {ID}\tPartitionCount: 3\tReplicationFactor: 3\tConfigs: segment.bytes=1,secret=null",
        "\tTopic: second\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2,3\tElr: \tLastKnownElr: ",
        "\tTopic: second\tPartition: 1\tLeader: none\tReplicas: 1,2,3\tIsr: 2\tElr: 3\tLastKnownElr: 3",
        "\tTopic: second\tPartition: 2\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2,3\tElr: N/A\tLastKnownElr: N/A",
    ]


def test_a_partition_that_moves_says_where_to_and_counts_without_the_newcomers() -> None:
    move = PartitionReassignment(replicas=(1, 2, 3, 4), adding=(4,), removing=(1,))
    moving = partition(replicas=(1, 2, 3, 4), in_sync=(1, 2, 3), move=move)
    assert lines("--describe", moving)[0].split("\t")[3] == "ReplicationFactor: 3"
    assert "\tIsr: 1,2,3\tAdding Replicas: 4\tRemoving Replicas: 1\tElr: \t" in lines("--describe", moving)[1]
    assert lines("--describe --under-replicated-partitions", moving) == []
    arrived = partition(replicas=(2, 3, 5), in_sync=(2, 3), move=move)
    assert lines("--describe --under-replicated-partitions", arrived) != []


@pytest.mark.parametrize(
    ("report", "shown"),
    [
        ("--under-replicated-partitions", [1, 2, 3]),
        ("--unavailable-partitions", [3, 4]),
        ("--under-min-isr-partitions", [2, 3]),
        ("--at-min-isr-partitions", [1]),
        ("--at-min-isr-partitions --under-min-isr-partitions", [1, 2, 3]),
    ],
)
def test_a_report_shows_only_partitions_that_are_not_as_they_should_be(report: str, shown: list[int]) -> None:
    topic = DescribedTopic("second", ID, {}, [
        partition(0),
        partition(1, in_sync=(1, 2)),
        partition(2, in_sync=(1,)),
        partition(3, leader=None, in_sync=(), is_leader_up=False),
        partition(4, is_leader_up=False),
    ])  # fmt: skip
    arguments = parsed(f"--describe {report}")
    found = list(lines_of(topic, arguments))
    assert [int(line.split("\t")[2].removeprefix("Partition: ")) for line in found] == shown
    assert [one["partition"] for one in json_of(topic, arguments)["partitions"]] == shown
    assert is_shown(topic, arguments)
    assert not is_shown(DescribedTopic("well", ID, {}, [partition()]), arguments)


def test_topics_with_overrides_are_shown_without_partitions() -> None:
    line = "--describe --topics-with-overrides"
    assert lines(line, partition()) == []
    assert len(lines(line, partition(), configs={"retention.ms": "1"})) == 1
    assert "partitions" not in json_of(DescribedTopic("second", ID, {}, [partition()]), parsed(line))


def test_a_terminal_shows_trouble_in_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", Terminal())
    line = layout.partition_line(partition(leader=None, in_sync=(2,), is_leader_up=False))
    assert "\t\x1b[31mLeader: none\x1b[0m\t" in line
    assert "\t\x1b[33mIsr: 2\x1b[0m\t" in line
