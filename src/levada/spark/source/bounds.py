"""Where a read begins and ends: at a place, at offsets or at times, as options say it."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from levada.client.types import TopicPartition
from levada.spark.options import OptionError
from levada.spark.source.offsets import Offsets

LATEST = -1
EARLIEST = -2
"""As Kafka asks for offsets, and as offsets in JSON say it."""

PLACES = {"earliest": EARLIEST, "latest": LATEST}


@dataclass(frozen=True, slots=True)
class AtPlace:
    """At the same end of every partition."""

    place: int


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """At an offset of each partition, which may be LATEST or EARLIEST."""

    offsets: Offsets
    option: str


@dataclass(frozen=True, slots=True)
class AtTimes:
    """At the first record of each partition that is not older than its time."""

    times_ms: Offsets
    option: str


@dataclass(frozen=True, slots=True)
class AtTime:
    """At the first record of every partition that is not older."""

    time_ms: int


Bound: TypeAlias = AtPlace | AtOffsets | AtTimes | AtTime


def parse_place_or_offsets(name: str, text: str) -> Bound:
    """`earliest`, `latest`, or offsets in JSON."""
    place = PLACES.get(text.strip().lower())
    if place is not None:
        return AtPlace(place)
    return AtOffsets(_partition_numbers(name, text, EARLIEST, "earliest, latest or "), name)


def parse_times(name: str, text: str) -> Bound:
    return AtTimes(_partition_numbers(name, text, 0, ""), name)


def check_covers(bound: Bound, partitions: Collection[TopicPartition]) -> None:
    """Offsets and times of single partitions must be there for exactly those that are read."""
    match bound:
        case AtOffsets(offsets, option):
            named = set(offsets)
        case AtTimes(times, option):
            named = set(times)
        case _:
            return
    missing, extra = sorted(set(partitions) - named), sorted(named - set(partitions))
    if missing:
        raise OptionError(
            f"option {option!r} says nothing of {_names(missing)}: name all partitions that are read; "
            "-2 stands for the earliest offset, -1 for the latest"
        )
    if extra:
        raise OptionError(f"option {option!r} names {_names(extra)}, of which nothing is read: leave it out")


def questions(bound: Bound, partitions: Collection[TopicPartition]) -> tuple[Offsets, Offsets]:
    """The offsets that are known already; and what brokers have to be asked: places, or times that are not negative."""
    match bound:
        case AtPlace(place):
            return {}, dict.fromkeys(partitions, place)
        case AtTime(time_ms):
            return {}, dict.fromkeys(partitions, time_ms)
        case AtTimes(times_ms):
            return {}, {partition: times_ms[partition] for partition in partitions}
        case AtOffsets(offsets):
            known = {each: offsets[each] for each in partitions if offsets[each] >= 0}
            return known, {each: offsets[each] for each in partitions if offsets[each] < 0}


def parse_partitions(name: str, text: str) -> frozenset[TopicPartition]:
    """`{"orders": [0, 1]}`"""
    example = '{"orders": [0, 1]}'
    found = _json_object(name, text, example)
    partitions: set[TopicPartition] = set()
    for topic, numbers in found.items():
        if not isinstance(numbers, list) or not all(_is_number(number) and number >= 0 for number in numbers):
            raise OptionError(f"option {name!r} must list partitions of {topic!r}, such as {example}")
        partitions |= {TopicPartition(topic, number) for number in numbers}
    if not partitions:
        raise OptionError(f"option {name!r} names no partition; give some, such as {example}")
    return frozenset(partitions)


def _partition_numbers(name: str, text: str, smallest: int, alternatives: str) -> Offsets:
    example = '{"orders": {"0": 23, "1": 42}}'
    found = _json_object(name, text, example, alternatives)
    offsets: Offsets = {}
    for topic, numbers in found.items():
        if not isinstance(numbers, Mapping):
            raise OptionError(f"option {name!r} must have numbers by partition for {topic!r}, such as {example}")
        for partition, number in numbers.items():
            if not partition.isdecimal() or not _is_number(number) or number < smallest:
                raise OptionError(
                    f"option {name!r} has {partition!r}: {json.dumps(number)} for {topic!r}; "
                    f"a partition and a number of at least {smallest} belong there, such as {example}"
                )
            offsets[TopicPartition(topic, int(partition))] = number
    return offsets


def _json_object(name: str, text: str, example: str, alternatives: str = "") -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, Mapping):
        raise OptionError(f"option {name!r} must be {alternatives}JSON such as {example}, not {text!r}")
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _names(partitions: list[TopicPartition]) -> str:
    shown = ", ".join(str(each) for each in partitions[:5])
    return shown if len(partitions) <= 5 else f"{shown} and {len(partitions) - 5} more"
