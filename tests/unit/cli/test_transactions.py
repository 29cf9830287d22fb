"""`levada transactions`: its flags, and which transactions hang."""

import argparse

import pytest

from levada.cli.kit.parser import ToolParser
from levada.cli.main import main
from levada.cli.transactions import add_arguments
from levada.cli.transactions.hanging import OpenTransaction, hanging
from levada.cli.transactions.tables import print_table
from levada.client.admin import ActiveProducer, TransactionDescription, TransactionState
from levada.client.types import TopicPartition

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


def parsed(line: str) -> argparse.Namespace:
    parser = ToolParser(prog="levada transactions")
    add_arguments(parser)
    return parser.read(line.split())


def opened(partition: TopicPartition, producer_id: int) -> OpenTransaction:
    return OpenTransaction(partition, ActiveProducer(producer_id, 0, 0, 60_000, None, 7))


def described(*partitions: TopicPartition) -> TransactionDescription:
    return TransactionDescription(1, TransactionState.ONGOING, 5, 0, 60_000, 1, partitions)


def test_a_transaction_hangs_that_no_coordinator_will_end_in_the_partition() -> None:
    unknown, elsewhere, fine = opened(FIRST, 4), opened(SECOND, 5), opened(FIRST, 5)
    assert hanging([unknown, elsewhere, fine], {5: described(FIRST)}) == [unknown, elsewhere]
    assert hanging([], {}) == []


def test_its_age_is_told_in_whole_minutes() -> None:
    assert opened(FIRST, 4).minutes(60_000 + 119_999) == 1


def test_the_servers_may_stand_before_the_command_and_behind_it() -> None:
    assert parsed("list").bootstrap_server == "localhost:9092"
    assert parsed("--bootstrap-server a:1 list").bootstrap_server == "a:1"
    assert parsed("list --bootstrap-server a:1").bootstrap_server == "a:1"
    assert parsed("--bootstrap-server a:1 --command-property client.id=me list").command_property == [
        ("client.id", "me")
    ]


@pytest.mark.parametrize(
    "line",
    [
        "abort --topic orders --partition 0",
        "abort --topic orders --partition 0 --producer-id 1 --producer-epoch 0",
        "abort --topic orders --partition 99999999999 --start-offset 0",
        "abort --topic orders --partition 0 --producer-id 1 --producer-epoch 40000 --coordinator-epoch 0",
        "find-hanging",
        "find-hanging --broker-id 1 --partition 0",
        "list --duration-filter 99999999999999999999",
        "describe",
    ],
)
def test_what_is_missing_or_too_large_is_refused_in_one_line(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(["transactions", *line.split()])
    except SystemExit as end:
        code = end.code  # type: ignore[assignment]
    said = capsys.readouterr()
    assert (code, said.out) == (2, "")
    assert said.err.startswith("levada: ")
    assert said.err.count("\n") == 1


def test_columns_are_as_wide_as_their_longest_cell_with_a_tab_behind(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["Id", "State"], [["copier", 1], ["x", "Ongoing"]])
    assert capsys.readouterr().out == "Id    \tState  \t\ncopier\t1      \t\nx     \tOngoing\t\n"
