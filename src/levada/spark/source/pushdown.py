"""What filters of a query say about the offsets that a batch read needs; Spark still applies the filters itself."""

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from levada.client.types import TopicPartition
from levada.spark.source.ranges import OffsetRange

COMPARISONS: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    EqualNullSafe: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    In: lambda found, wanted: found in wanted,
    StringStartsWith: str.startswith,
    StringEndsWith: str.endswith,
    StringContains: operator.contains,
}

LOWEST: dict[type[Filter], Callable[[Any], Any]] = {
    EqualTo: lambda wanted: wanted,
    EqualNullSafe: lambda wanted: wanted,
    GreaterThan: lambda wanted: wanted,
    GreaterThanOrEqual: lambda wanted: wanted,
    In: min,
}
"""No value below this one passes the filter."""

HIGHEST: dict[type[Filter], Callable[[Any], Any]] = {
    EqualTo: lambda wanted: wanted,
    EqualNullSafe: lambda wanted: wanted,
    LessThan: lambda wanted: wanted,
    LessThanOrEqual: lambda wanted: wanted,
    In: max,
}


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What has to be read at most."""

    on_topic: tuple[Filter, ...] = ()
    on_partition: tuple[Filter, ...] = ()
    first_offset: int | None = None
    last_offset: int | None = None
    since_ms: int | None = None
    """Nothing older is wanted. There is no such thing as "until": after a record that is too young, there may be some
    that are not, as records need not be in the order of their times."""

    def wants(self, partition: TopicPartition) -> bool:
        return all(_passes(each, partition.topic) for each in self.on_topic) and all(
            _passes(each, partition.partition) for each in self.on_partition
        )

    def narrow(
        self, ranges: Iterable[OffsetRange], first_since: Mapping[TopicPartition, int | None]
    ) -> list[OffsetRange]:
        """Parts of the ranges; `first_since` has the first records that are young enough, None where none is."""
        narrowed = []
        for each in ranges:
            partition = TopicPartition(each.topic, each.partition)
            first = first_since.get(partition, each.start)
            if first is None or not self.wants(partition):
                continue
            start = max(each.start, first, each.start if self.first_offset is None else self.first_offset)
            end = each.end if self.last_offset is None else min(each.end, self.last_offset + 1)
            if start < end:
                narrowed.append(replace(each, start=start, end=end))
        return narrowed


def narrowing(filters: Iterable[Filter]) -> Narrowing:
    """What is certain from filters of which each must pass; those that say nothing here are left out."""
    found = Narrowing()
    for each in filters:
        column = _column(each)
        if column == "topic":
            found = replace(found, on_topic=(*found.on_topic, each))
        elif column == "partition":
            found = replace(found, on_partition=(*found.on_partition, each))
        elif column == "offset":
            lowest, highest = _limit(LOWEST, each), _limit(HIGHEST, each)
            found = replace(
                found,
                first_offset=_tighter(max, found.first_offset, lowest),
                last_offset=_tighter(min, found.last_offset, highest),
            )
        elif column == "timestamp":
            since = _limit(LOWEST, each)
            if isinstance(since, datetime) and since.tzinfo is not None:
                since_ms = max(int(since.timestamp() * 1_000), 0)
                found = replace(found, since_ms=_tighter(max, found.since_ms, since_ms))
    return found


def _column(one: Filter) -> str | None:
    """The column that a comparison with a value is about; None for any other filter, and inside of structures."""
    inner: Any = one.child if isinstance(one, Not) else one
    is_known = type(inner) in COMPARISONS and inner.value is not None and len(inner.attribute) == 1
    return str(inner.attribute[0]) if is_known else None


def _passes(one: Any, found: object) -> bool:
    if isinstance(one, Not):
        return not _passes(one.child, found)
    return COMPARISONS[type(one)](found, one.value)


def _limit(limits: Mapping[type[Filter], Callable[[Any], Any]], one: Any) -> Any:
    limit = limits.get(type(one))
    if limit is None or (isinstance(one, In) and (not one.value or None in one.value)):
        return None
    return limit(one.value)


def _tighter(choose: Callable[[int, int], int], known: int | None, other: int | None) -> int | None:
    if known is None or other is None:
        return other if known is None else known
    return choose(known, other)
