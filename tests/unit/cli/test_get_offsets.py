"""`levada get-offsets`: what its flags mean."""

import doctest

import pytest

from levada.cli import get_offsets
from levada.cli.get_offsets import PLACES, partitions, rules, time
from levada.cli.main import main
from levada.client.admin import OffsetSpec


def test_examples() -> None:
    result = doctest.testmod(get_offsets)
    assert result.attempted
    assert not result.failed


def test_places_have_the_numbers_that_requests_have() -> None:
    assert {spec.name.lower().replace("_", "-"): spec for spec in OffsetSpec} == PLACES
    assert [time(str(number)) for number in PLACES.values()] == list(PLACES.values())


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("orders", {("orders", 0), ("orders", 1), ("orders", 2)}),
        ("orders:", {("orders", 0), ("orders", 1), ("orders", 2)}),
        ("orders:1", {("orders", 1)}),
        ("o.*:1-", {("orders", 1), ("orders", 2)}),
        ("orders:-1", {("orders", 0)}),
        ("orders:-", {("orders", 0), ("orders", 1), ("orders", 2)}),
        ("orders:2-1", set()),
        (":2,payments:0", {("orders", 2), ("payments", 2), ("payments", 0)}),
        ("payments:0,,", {("payments", 0)}),
        (",payments:0", {(topic, index) for topic in ("orders", "payments") for index in range(3)}),
        ("", {(topic, index) for topic in ("orders", "payments") for index in range(3)}),
    ],
)
def test_rules_choose_partitions(text: str, allowed: set[tuple[str, int]]) -> None:
    found = {
        (topic, index)
        for topic in ("orders", "payments")
        for index in range(3)
        if any(rule.topic.allows(topic) and rule.has(index) for rule in rules(text))
    }
    assert found == allowed


def test_no_partitions_are_all() -> None:
    assert partitions("") == set()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--time", "yesterday"], "argument --time: 'yesterday' is neither a time in milliseconds nor one of latest"),
        (["--time", "-7"], "argument --time: '-7' is neither a time"),
        (["--time", "9223372036854775808"], "argument --time: '9223372036854775808' is neither a time"),
        (["--time", "1_000"], "argument --time: '1_000' is neither a time"),
        (["--partitions", "0,x"], "argument --partitions: 'x' is not a whole number"),
        (["--partitions=-1"], "argument --partitions: '-1' is below 0"),
        (
            ["--topic-partitions", "orders:x"],
            "argument --topic-partitions: 'orders:x' is not TOPIC, TOPIC:N, TOPIC:N-M",
        ),
        (["--topic-partitions", "a", "--topic", "a"], "--topic-partitions cannot be used with --topic or --partitions"),
    ],
)
def test_flags_that_make_no_sense_are_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code: object = main(["get-offsets", *arguments])
    except SystemExit as end:
        code = end.code
    captured = capsys.readouterr()
    assert code == 2
    assert captured.err.startswith(f"levada: {said}")
    assert captured.err.count("\n") == 1
    assert captured.out == ""
