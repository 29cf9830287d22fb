"""Arguments are held against the signature of their call, and made into what it says."""

import asyncio
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import pytest

from levada.client.arguments import check_buffer, check_timeout, checked
from levada.client.types import OffsetAndMetadata, Partition, RebalanceListener, TopicPartition


class Colour(IntEnum):
    UNKNOWN = 0
    RED = 1

    @classmethod
    def _missing_(cls, value: object) -> "Colour":
        return cls.UNKNOWN


@dataclass(frozen=True)
class Thing:
    name: str
    sizes: Mapping[str, int] = field(default_factory=dict)


class Calls:
    @checked
    def text(self, value: str) -> Any:
        return value

    @checked
    def number(self, value: int) -> Any:
        return value

    @checked
    def colour(self, value: Colour | None) -> Any:
        return value

    @checked
    def things(self, value: Iterable[Thing]) -> Any:
        return value

    @checked
    def names(self, value: Collection[str] | re.Pattern[str] | str) -> Any:
        return value

    @checked
    def offsets(self, value: Mapping[Partition, OffsetAndMetadata | int]) -> Any:
        return value

    @checked
    def pairs(self, value: Sequence[tuple[str, int]]) -> Any:
        return value

    @checked
    def entity(self, value: frozenset[tuple[str, str | None]]) -> Any:
        return value

    @checked
    def callback(self, value: Callable[[int], None]) -> Any:
        return value

    @checked
    def listener(self, value: RebalanceListener | None) -> Any:
        return value

    @checked
    def extra(self, value: "missing.Package") -> Any:  # type: ignore[name-defined] # noqa: F821
        return value

    @checked
    async def wait(self, what: str, *, timeout: float | None = None) -> Any:
        return what, timeout


TP = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("call", "given", "got"),
    [
        ("text", "a", "a"),
        ("number", 5, 5),
        ("colour", Colour.RED, Colour.RED),
        ("colour", 1, Colour.RED),
        ("colour", None, None),
        ("things", (Thing(name) for name in "ab"), [Thing("a"), Thing("b")]),
        ("names", {"a"}, ["a"]),
        ("names", "a", "a"),
        ("names", re.compile("a"), re.compile("a")),
        ("offsets", {("t", 0): 5}, {TP: 5}),
        ("offsets", {TP: (7, "words")}, {TP: OffsetAndMetadata(7, "words")}),
        ("pairs", [("a", 1)], [("a", 1)]),
        ("entity", {("user", None)}, frozenset({("user", None)})),
        ("callback", print, print),
        ("extra", 5, 5),
    ],
)  # fmt: skip
def test_what_is_of_the_right_kind_arrives_as_the_signature_has_it(call: str, given: Any, got: Any) -> None:
    found = getattr(Calls(), call)(given)
    assert found == got
    if isinstance(got, dict):
        assert [type(key) for key in found] == [TopicPartition] * len(got)
        assert [type(value) for value in found.values()] == [type(value) for value in got.values()]
    else:
        assert type(found) is type(got)


@pytest.mark.parametrize(
    ("call", "given", "kind"),
    [
        ("text", 5, "str"),
        ("text", None, "str"),
        ("number", "5", "int"),
        ("number", 1.5, "int"),
        ("colour", 99, "Colour | None"),
        ("colour", [], "Colour | None"),
        ("things", [5], "Iterable[Thing]"),
        ("things", Thing("a"), "Iterable[Thing]"),
        ("things", [Thing(5)], "Iterable[Thing]"),  # type: ignore[arg-type]
        ("things", [Thing("a", {"b": "c"})], "Iterable[Thing]"),  # type: ignore[dict-item]
        ("names", [5], "Collection[str] | Pattern[str] | str"),
        ("names", b"a", "Collection[str] | Pattern[str] | str"),
        ("offsets", {"t": 5}, "Mapping[TopicPartition | tuple[str, int], OffsetAndMetadata | int]"),
        ("offsets", {TP: None}, "Mapping[TopicPartition | tuple[str, int], OffsetAndMetadata | int]"),
        ("offsets", [(TP, 5)], "Mapping[TopicPartition | tuple[str, int], OffsetAndMetadata | int]"),
        ("pairs", [("a", "1")], "Sequence[tuple[str, int]]"),
        ("pairs", "ab", "Sequence[tuple[str, int]]"),
        ("callback", 5, "Callable"),
    ],
)
def test_a_wrong_kind_is_told_with_the_right_one(call: str, given: Any, kind: str) -> None:
    with pytest.raises(TypeError) as told:
        getattr(Calls(), call)(given)
    assert str(told.value) == f"{call}(): value must be {kind}, not {given!r}"


def test_a_coroutine_is_checked_when_it_is_awaited() -> None:
    calls = Calls()
    assert asyncio.run(calls.wait("a", timeout=3)) == ("a", 3)
    with pytest.raises(TypeError, match=re.escape("wait(): what must be str, not 5")):
        asyncio.run(calls.wait(5))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=re.escape("wait(): timeout must be float | None, not 'x'")):
        asyncio.run(calls.wait("a", timeout="x"))  # type: ignore[arg-type]


def test_arguments_that_a_call_does_not_have_are_left_to_python() -> None:
    with pytest.raises(TypeError, match="positional"):
        Calls().text("a", "b")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        Calls().text("a", other=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="missing"):
        Calls().text()  # type: ignore[call-arg]


@pytest.mark.parametrize("seconds", [0, 0.5, 3, math.inf, 10**30])
def test_a_length_of_time_may_be_any_number_from_0_on(seconds: float) -> None:
    check_timeout(seconds)


@pytest.mark.parametrize("wrong", [-1, -0.001, math.nan, -math.inf])
def test_a_time_that_makes_no_sense_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="timeout must be a number from 0 on"):
        check_timeout(wrong)
    with pytest.raises(ValueError, match=re.escape("wait(): timeout must be a number from 0 on")):
        asyncio.run(Calls().wait("a", timeout=wrong))


def test_long_values_are_shown_in_part() -> None:
    with pytest.raises(TypeError) as told:
        check_buffer("x" * 1_000, "value")
    assert len(str(told.value)) < 200
