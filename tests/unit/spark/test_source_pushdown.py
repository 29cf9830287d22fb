"""What filters say about the offsets to read."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)

from levada.client.types import TopicPartition
from levada.spark.source.batch import TopicReader
from levada.spark.source.pushdown import narrowing
from levada.spark.source.ranges import OffsetRange

RANGES = [OffsetRange("a", 0, 0, 10), OffsetRange("a", 1, 5, 15), OffsetRange("bb", 0, 0, 3)]


def narrowed(*filters: Filter) -> list[tuple[str, int, int, int]]:
    found = narrowing(filters).narrow(RANGES, {})
    return [(each.topic, each.partition, each.start, each.end) for each in found]


def column(name: str) -> tuple[str, ...]:
    return (name,)


EVERYTHING = [("a", 0, 0, 10), ("a", 1, 5, 15), ("bb", 0, 0, 3)]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], EVERYTHING),
        ([EqualTo(column("partition"), 1)], [("a", 1, 5, 15)]),
        ([Not(EqualTo(column("partition"), 0))], [("a", 1, 5, 15)]),
        ([In(column("partition"), (1, 2))], [("a", 1, 5, 15)]),
        ([GreaterThan(column("partition"), 0)], [("a", 1, 5, 15)]),
        ([StringStartsWith(column("topic"), "b")], [("bb", 0, 0, 3)]),
        ([StringContains(column("topic"), "bb")], [("bb", 0, 0, 3)]),
        ([EqualTo(column("topic"), "nowhere")], []),
        ([EqualTo(column("offset"), 7)], [("a", 0, 7, 8), ("a", 1, 7, 8)]),
        ([GreaterThanOrEqual(column("offset"), 8)], [("a", 0, 8, 10), ("a", 1, 8, 15)]),
        ([GreaterThan(column("offset"), 8), LessThan(column("offset"), 12)], [("a", 0, 8, 10), ("a", 1, 8, 13)]),
        ([LessThanOrEqual(column("offset"), 1)], [("a", 0, 0, 2), ("bb", 0, 0, 2)]),
        ([In(column("offset"), (2, 6))], [("a", 0, 2, 7), ("a", 1, 5, 7), ("bb", 0, 2, 3)]),
        ([In(column("offset"), (2, None))], EVERYTHING),
        ([Not(EqualTo(column("offset"), 7))], EVERYTHING),
        ([EqualTo(column("key"), b"k")], EVERYTHING),
        ([IsNotNull(column("offset"))], EVERYTHING),
        ([EqualTo(("headers", "key"), 1)], EVERYTHING),
        ([EqualTo(column("offset"), None)], EVERYTHING),
    ],
)
def test_only_what_a_filter_can_want_is_read(filters: list[Filter], expected: list[tuple[str, int, int, int]]) -> None:
    assert narrowed(*filters) == expected


def test_a_time_narrows_the_beginning_and_never_the_end() -> None:
    moment = datetime.fromtimestamp(5, UTC)
    assert narrowing([GreaterThan(column("timestamp"), moment)]).since_ms == 5_000
    assert narrowing([LessThan(column("timestamp"), moment)]).since_ms is None
    since = narrowing([GreaterThanOrEqual(column("timestamp"), moment)])
    first: dict[TopicPartition, Any] = {TopicPartition("a", 0): 4, TopicPartition("a", 1): None}
    assert since.narrow(RANGES, first) == [OffsetRange("a", 0, 4, 10), OffsetRange("bb", 0, 0, 3)]


def test_spark_keeps_all_filters_and_takes_the_reader_for_one_without_pushdown() -> None:
    reader = TopicReader({"kafka.bootstrap.servers": "localhost:9092", "subscribe": "a"})
    filters: list[Filter] = [EqualTo(column("partition"), 1)]
    assert list(reader.pushFilters(filters)) == filters
    # What Spark looks at before it refuses a reader while pushdown is off.
    assert reader.pushFilters.__func__ is DataSourceReader.pushFilters
