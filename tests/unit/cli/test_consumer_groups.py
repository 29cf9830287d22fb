"""`levada consumer-groups`: its flags, times, durations, files, and the text of what it shows."""

import argparse
import doctest

import pytest

from levada.cli.consumer_groups import java_errors, listing, members, plan_file, scope, tables, times
from levada.cli.consumer_groups.describing import tell_state
from levada.cli.consumer_groups.flags import add_arguments, check
from levada.cli.consumer_groups.listing import parse_states, parse_types
from levada.cli.consumer_groups.plan_file import export_lines, parse_plan
from levada.cli.consumer_groups.scope import parse_scope
from levada.cli.consumer_groups.targets import read_target
from levada.cli.consumer_groups.times import parse_datetime, parse_duration
from levada.cli.kit.parser import ToolParser
from levada.cli.kit.refusals import Refused, WrongUsage
from levada.client.admin import GroupDescription, GroupState, GroupType, OffsetSpec
from levada.client.errors import KafkaError, error_for
from levada.client.types import TopicPartition
from levada.model.error_codes import ErrorCode

FIRST = TopicPartition("orders", 0)


def parsed(line: str) -> argparse.Namespace:
    parser = ToolParser(prog="levada consumer-groups")
    add_arguments(parser)
    return parser.read(line.split())


@pytest.mark.parametrize("module", [listing, members, plan_file, scope, tables, times])
def test_examples(module: object) -> None:
    result = doctest.testmod(module)  # type: ignore[arg-type]
    assert result.attempted
    assert not result.failed


@pytest.mark.parametrize(
    "line",
    [
        "--list",
        "--list --state --type",
        "--list --state stable,empty",
        "--describe --group a --group b --members --verbose",
        "--describe --all-groups --state",
        "--delete --all-groups",
        "--delete-offsets --group a --topic t:0,1",
        "--reset-offsets --group a --topic t --to-offset 0",
        "--reset-offsets --all-groups --all-topics --shift-by -3 --execute",
        "--reset-offsets --group a --from-file plan.csv --dry-run --export",
        "--validate-regex a.*",
    ],
)
def test_flags_that_make_sense_are_taken(line: str) -> None:
    check(parsed(line))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "say exactly one of --list, --describe, --delete,"),
        ("--list --delete --group a", "say exactly one of"),
        ("--validate-regex a --group b", "--group goes with"),
        ("--list --verbose", "--verbose goes with --describe, not with --list"),
        ("--describe", "--describe wants --group or --all-groups"),
        ("--describe --group a --type", "--type goes with --list, not with --describe"),
        ("--describe --group a --execute", "--execute goes with --reset-offsets"),
        ("--delete --group a --json", "--json goes with --describe or --list"),
        ("--delete-offsets --topic t", "--delete-offsets wants --group"),
        ("--delete-offsets --group a --group b --topic t", "--delete-offsets takes one --group"),
        ("--reset-offsets --group a --topic t --to-offset 0 --shift-by 0", "say one of --to-offset, --shift-by"),
        ("--reset-offsets --group a --to-latest", "wants --topic or --all-topics"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(line: str, said: str) -> None:
    with pytest.raises(WrongUsage, match=said):
        check(parsed(line))


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:00.000", 0),
        ("1970-1-1T0:0:1.5", 1_005),
        ("2024-02-29T00:00:00.000Z", 1_709_164_800_000),
        ("2024-02-29T00:00:00.000-01:30", 1_709_170_200_000),
        ("2024-02-29T00:00:00.000+01", 1_709_161_200_000),
        ("1969-12-31T23:59:59.999", -1),
        ("0001-01-01T00:00:00.000+23:59", -62_135_683_140_000),
    ],
)
def test_times_are_read(text: str, milliseconds: int) -> None:
    assert parse_datetime(text) == milliseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2024-01-01",
        "2024-01-01T00:00:00",
        "2024-01-01 00:00:00.000",
        "2024-01-01T00:00:00.000Zulu",
        "2024-01-01T00:00:00.000+0130",
        "2024-01-01T24:00:00.000",
        "2023-02-29T00:00:00.000",
        "2024-01-01T00:00:00.1000",
        "99999-01-01T00:00:00.000",
        "٢٠٢٤-01-01T00:00:00.000",
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="write YYYY-MM-DDThh:mm:ss"):
        parse_datetime(text)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("P1D", 86_400_000),
        ("PT1H2M3S", 3_723_000),
        ("PT3.25S", 3_250),
        ("PT-0.5S", -500),
        ("-P1DT-1H", -82_800_000),
        ("+pt1,5s", 1_500),
        ("PT1.S", 1_000),
    ],
)
def test_durations_are_read(text: str, milliseconds: int) -> None:
    assert parse_duration(text) == milliseconds


@pytest.mark.parametrize("text", ["", "P", "PT", "1D", "P1W", "P1DT", "P1H", "PT1S2M", "PT.5S", f"P{10**12}D", "P1D "])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="write PnDTnHnMnS"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "groups", "plan"),
    [
        ("orders,0,7\norders,1,8\n", ["a"], {"a": {FIRST: 7, TopicPartition("orders", 1): 8}}),
        ('"orders",0,-7\r\n', ["a"], {"a": {FIRST: -7}}),
        ("b,orders,0,7", ["a"], {"b": {FIRST: 7}}),
        ("a,orders,0,7\nb,orders,0,9\n\n", ["a", "b"], {"a": {FIRST: 7}, "b": {FIRST: 9}}),
        ('"a,b",orders,0,7', [], {"a,b": {FIRST: 7}}),
    ],
)
def test_plans_are_read(text: str, groups: list[str], plan: object) -> None:
    assert parse_plan(text, "plan.csv", groups) == plan


@pytest.mark.parametrize(
    ("text", "groups", "line"),
    [
        ("", ["a"], 1),
        ("orders,0", ["a"], 1),
        ("orders,0,x", ["a"], 1),
        ("orders,-1,0", ["a"], 1),
        ("orders,99999999999,0", ["a"], 1),
        ("orders,0,1\n\norders,1,2", ["a"], 2),
        ("orders,0,1\na,orders,1,2", ["a"], 2),
        ("orders,0,1", ["a", "b"], 1),
        ("topic,partition,offset", ["a"], 1),
    ],
)
def test_a_plan_that_cannot_be_read_is_refused_by_its_line(text: str, groups: list[str], line: int) -> None:
    with pytest.raises(Refused, match=rf"--from-file plan.csv, line {line}: .* is not (group,)?topic,partition,offset"):
        parse_plan(text, "plan.csv", groups)


def test_what_is_exported_can_be_read_again() -> None:
    offsets = {FIRST: 7, TopicPartition("pay", 3): 0}
    assert parse_plan("\n".join(export_lines("a,b", offsets, with_group=True)), "", []) == {"a,b": offsets}
    assert parse_plan("\n".join(export_lines("a,b", offsets, with_group=False)), "", ["c"]) == {"c": offsets}


@pytest.mark.parametrize(
    "text", ["orders:", "orders:x", "orders:0:1", "orders:-1", "orders:0,,1", "orders:99999999999"]
)
def test_a_topic_with_odd_partitions_is_refused(text: str) -> None:
    with pytest.raises(WrongUsage, match="is neither a topic nor TOPIC:PARTITION"):
        parse_scope([text])


def test_states_and_types_are_read_in_any_case() -> None:
    assert parse_states(None) == parse_states("") == []
    assert parse_states("PREPARINGREBALANCE , Dead") == [GroupState.PREPARING_REBALANCE, GroupState.DEAD]
    assert parse_types("CLASSIC") == [GroupType.CLASSIC]
    for text in ("stable,", "NotReady", "Unknown"):
        with pytest.raises(WrongUsage, match="the states are"):
            parse_states(text)
    with pytest.raises(WrongUsage, match="the types are Classic, Consumer"):
        parse_types("share")


@pytest.mark.parametrize(
    ("state", "has_more", "out", "err"),
    [
        (GroupState.STABLE, True, "", ""),
        (GroupState.EMPTY, True, "", "levada: Consumer group 'a' has no active members.\n"),
        (GroupState.RECONCILING, True, "", "levada: Warning: Consumer group 'a' is rebalancing.\n"),
        (GroupState.DEAD, False, "\nError: Consumer group 'a' does not exist.\n", ""),
    ],
)
def test_what_is_unusual_about_a_group_is_said(
    state: GroupState, has_more: bool, out: str, err: str, capsys: pytest.CaptureFixture[str]
) -> None:
    group = GroupDescription("a", GroupType.CONSUMER, state, "consumer", "uniform", (), 1, None)
    assert tell_state(group) == has_more
    assert tuple(capsys.readouterr()) == (out, err)


def test_targets_are_told_apart_also_where_they_are_zero() -> None:
    assert read_target(parsed("--to-offset 0")).offset == 0
    assert read_target(parsed("--shift-by 0")).shift == 0
    assert read_target(parsed("--to-earliest")).place == OffsetSpec.EARLIEST
    assert read_target(parsed("--to-current")).is_current


def test_errors_are_spelled_as_javas_exceptions() -> None:
    bare = error_for(ErrorCode.NON_EMPTY_GROUP, context="group 'a'")
    assert java_errors.spelled(bare) == "org.apache.kafka.common.errors.GroupNotEmptyException: The group is not empty."
    told = error_for(ErrorCode.GROUP_ID_NOT_FOUND, "Group a not found.", context="group 'a'")
    assert java_errors.message(told) == "Group a not found."
    own = KafkaError("no broker answers")
    assert not java_errors.is_known(own)
    assert java_errors.spelled(own) == java_errors.message(own) == "no broker answers"
