"""Steps over rows: expiry, duplicates, routes, quality; for Rows and for DataFrames, in batches and in streams."""

import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf

from levada.spark.rows import (
    QualityCounts,
    Rows,
    RowsError,
    check,
    deduplicate,
    expire_after,
    fresh,
    in_range,
    matches,
    not_null,
    parse,
    quality,
    quality_counts,
    route,
    unique,
)
from tests.spark.rows_frames import NOON, Feed, frame, record, records, run

SCHEMA = "id string, amount double, tag string"


def parsed(spark: SparkSession, values: list[Any]) -> Rows:
    return parse(records(spark, values), SCHEMA, dead_letters="dead")


def reasons(rows: Rows) -> dict[int, tuple[str, str]]:
    return {row._source.offset: (row._rejected.stage, row._rejected.reason) for row in rows.rejected.collect()}


def ids(data: DataFrame) -> list[str]:
    return sorted(row.id for row in data.collect())


def test_old_rows_expire_and_the_rejected_stay_as_they_were(spark: SparkSession) -> None:
    now = datetime.now(UTC)
    ages = {"new": 0, "old": 3600, "older": 7200}
    source = frame(
        spark,
        [
            *(
                (None, f'{{"id":"{name}"}}'.encode(), "orders", 0, offset, now - timedelta(seconds=age), 0, [])
                for offset, (name, age) in enumerate(ages.items())
            ),
            (None, b"broken", "orders", 0, 9, now - timedelta(hours=9), 0, []),
        ],
    )
    rows = parse(source, SCHEMA, dead_letters="dead")
    expired = expire_after(rows, "90 minutes")
    assert ids(expired.good) == ["new", "old"]
    told = reasons(expired)
    assert told[9] == ("parse", "the value is not JSON: broken")
    assert told[2][0] == "expire"
    assert told[2][1].startswith("it is 72")
    assert told[2][1].endswith(" seconds old; 90 minutes are allowed")
    dropped = rows.expire_after(90, action="drop")
    assert (ids(dropped.good), set(reasons(dropped))) == (["new"], {9})
    assert ids(expire_after(rows.good, timedelta(minutes=90), timestamp="_source.timestamp")) == ["new", "old"]
    assert ids(expire_after(rows.good.withColumn("at", sf.lit(None).cast("timestamp")), 1, timestamp="at")) == sorted(
        ages
    )


def test_rows_are_routed_by_value_and_those_without_a_topic_are_rejected(spark: SparkSession) -> None:
    rows = parsed(spark, [{"id": "a", "tag": "vip"}, {"id": "b", "tag": "x"}, {"id": "c"}, b"broken"])
    routed = route(rows, "tag", {"vip": "orders.vip"})
    assert [(row.id, row._topic) for row in routed.good.collect()] == [("a", "orders.vip")]
    told = reasons(routed)
    assert (told[1], told[2]) == (("route", "no topic for x"), ("route", "no topic for null"))
    assert told[3][0] == "parse"
    open_to_all = rows.route("tag", {"vip": "orders.vip", None: "orders.untagged"}, default="orders.rest")
    assert {row.id: row._topic for row in open_to_all.good.collect()} == {
        "a": "orders.vip",
        "b": "orders.rest",
        "c": "orders.untagged",
    }
    with pytest.raises(PySparkException, match="no topic for x"):
        route(rows.good.where("id = 'b'"), "tag", {"vip": "orders.vip"}).collect()


def test_a_batch_has_no_two_rows_with_one_key_within_the_time(spark: SparkSession) -> None:
    seconds = {"a": [0, 5, 16, 40], "b": [3], None: [0, 1]}
    rows = [record({"id": key}, offset=int(second), seconds=second) for key, at in seconds.items() for second in at]
    broken = [record(b"broken", 100, seconds=0), record(b"broken", 101, seconds=0)]
    parsed_rows = parse(frame(spark, rows + broken), SCHEMA, dead_letters="dead")
    kept = deduplicate(parsed_rows, "id", "10 seconds")
    found = sorted((str(row.id), row._source.offset) for row in kept.good.collect())
    assert found == [("None", 0), ("None", 1), ("a", 0), ("a", 16), ("a", 40), ("b", 3)]
    assert set(reasons(kept)) == {100, 101}
    assert kept.frame.columns == parsed_rows.frame.columns
    plain = parsed_rows.good.select("id", sf.col("_source.timestamp").alias("at"))
    assert deduplicate(plain, ["id"], 10, timestamp="at").count() == 6


def test_a_stream_has_no_two_rows_with_one_key_within_the_time(spark: SparkSession, tmp_path: Path) -> None:
    """Over batches and restarts, and late rows and rejected ones are not lost."""
    feed = Feed(spark, tmp_path)
    schema = "id string, amount double, at timestamp, more struct<x: double>, big bigint, small int, truth boolean"
    counts = (
        "map(-3, array(named_struct('day', date'2026-01-01', 'more', map(timestamp'1500-01-01 00:00:00.000001', "
        "double('NaN'))), null), 4, null)"
    )

    def kept() -> Rows:
        rows = parse(feed.stream, schema + ", names map<string, int>", dead_letters="dead")
        with_map = rows.transform(lambda each: each.withColumn("counts", sf.expr(f"if(id = 'a', {counts}, null)")))
        return deduplicate(with_map, "id", "10 seconds")

    strange = {"id": "a", "amount": "NaN", "at": "1500-01-01T00:00:00.000001Z", "more": {"x": None}, "big": 2**62 + 1}
    strange |= {"small": -7, "truth": False, "names": {"x": None, "y": 1}}
    feed.add([record(strange, 0), record({"id": "a"}, 1, seconds=5), record(b"broken", 2, seconds=0)])
    feed.add([record({"id": "a"}, 3, seconds=14), record({"id": "b"}, 4, seconds=1), record(b"broken", 5)])
    found = run(kept().frame, tmp_path / "checkpoint")
    assert {row._source.offset: row._rejected is None for row in found} == {0: True, 2: False, 4: True, 5: False}
    (first,) = [row for row in found if row._source.offset == 0]
    assert str(first.amount) == "nan"
    assert (first.at, first.more.x) == (datetime(1500, 1, 1, 0, 0, 0, 1), None)
    assert (first.big, first.small, first.truth) == (2**62 + 1, -7, False)
    assert first.names == {"x": None, "y": 1}
    assert set(first.counts) == {-3, 4}
    assert first.counts[4] is None
    assert first.counts[-3][1] is None
    assert first.counts[-3][0].day == date(2026, 1, 1)
    ((at, number),) = first.counts[-3][0].more.items()
    assert (at, str(number)) == (datetime(1500, 1, 1, 0, 0, 0, 1), "nan")
    (other,) = [row for row in found if row._source.offset == 4]
    assert (other.counts, other.names) == (None, None)
    assert (other.amount, other.at, other.more, other.big, other.small, other.truth) == (None,) * 6
    assert [(header.key, bytes(header.value)) for header in first._source.headers] == [("h", b"1")]
    feed.add([record({"id": "a"}, 6, seconds=24), record({"id": "c"}, 7, seconds=9999)])
    feed.add([record({"id": "d"}, 8, seconds=0), record(b"broken", 9, seconds=0), record({"id": "a"}, 10, seconds=35)])
    found = run(kept().frame, tmp_path / "checkpoint")
    assert {row._source.offset for row in found} == {7, 8, 9, 10}


def test_a_window_with_a_watermark_may_follow_a_deduplicated_stream(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(spark, tmp_path)
    feed.add([record({"id": "a"}, 0), record({"id": "a"}, 1, seconds=1), record({"id": "b"}, 2, seconds=2)])
    feed.add([record({"id": "c"}, 3, seconds=600)])
    good = deduplicate(parse(feed.stream, SCHEMA, dead_letters="dead"), "id", "1 minute").good
    timed = good.withColumn("at", sf.col("_source.timestamp")).withWatermark("at", "1 second")
    counted = timed.groupBy(sf.window("at", "1 minute")).count()
    assert [row["count"] for row in run(counted, tmp_path / "checkpoint")] == [2]


RULES = [
    not_null("amount"),
    in_range("amount", 0, 100),
    matches("id", "^[a-z]+$"),
    check("tagged", "tag is null or length(tag) < 4"),
    unique("id", "10 seconds"),
]
VALUES = [
    {"id": "a", "amount": 1},
    {"id": "a", "amount": 101},
    {"id": "B", "amount": -1, "tag": "long"},
    {"id": "c"},
    {"id": "d", "amount": "NaN"},
    {"id": "e", "amount": 100, "tag": "x"},
    {"amount": 5},
]
BROKEN_RULES = {
    1: "broken rules: in_range(amount), unique(id)",
    2: "broken rules: in_range(amount), matches(id), tagged",
    3: "broken rules: not_null(amount)",
    4: "broken rules: in_range(amount)",
}
COUNTS = {"rows": 7, "not_null(amount)": 1, "in_range(amount)": 3, "matches(id)": 1, "tagged": 1, "unique(id)": 1}


def test_a_batch_is_held_against_rules_and_violations_are_counted(spark: SparkSession) -> None:
    rows = parsed(spark, [*VALUES, b"broken"])
    observation = Observation("levada-test")
    held = quality(rows, RULES)
    told = {offset: reason for offset, (stage, reason) in reasons(held).items() if stage == "quality"}
    assert told == BROKEN_RULES
    assert reasons(held)[7][0] == "parse"
    assert held.frame.columns == rows.frame.columns
    kept = quality(rows.good, RULES, name=observation)
    assert sorted(row._source.offset for row in kept.collect()) == [0, 5, 6]
    assert observation.get == COUNTS


def test_a_stream_is_held_against_rules_and_violations_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(spark, tmp_path)
    everything = [record(value, offset, seconds=offset) for offset, value in enumerate([*VALUES, b"broken"])]
    feed.add(everything[:1])
    feed.add(everything[1:])
    held = quality(parse(feed.stream, SCHEMA, dead_letters="dead"), RULES)
    counts = QualityCounts()
    spark.streams.addListener(counts)
    writer = held.frame.writeStream.format("memory").queryName("quality_stream")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(100)
        rows = Rows(spark.table("quality_stream"), "dead")
        told = {offset: reason for offset, (stage, reason) in reasons(rows).items() if stage == "quality"}
        assert told == BROKEN_RULES
        assert quality_counts(query) == COUNTS
        deadline = time.monotonic() + 30
        while counts.of(query) != COUNTS:
            assert time.monotonic() < deadline, counts.of(query)
            time.sleep(0.05)
    finally:
        query.stop()
        spark.streams.removeListener(counts)


def test_ranges_are_of_dates_times_and_text_as_of_numbers(spark: SparkSession) -> None:
    """Bounds are as Python has them, or as a file writes them."""
    data = spark.sql(
        "select id, date_add(date'2026-01-01', id) day, timestamp'2026-01-01 12:00:00' + make_dt_interval(id) as at, "
        "timestamp_ntz'2026-01-01 12:00:00' + make_dt_interval(id) as local_at, chr(97 + id) as text, "
        "cast(id as decimal(9, 2)) as price, cast(id as double) as number "
        "from values (0), (1), (2), (3), (null) as t(id)"
    )
    noon = datetime(2026, 1, 2, 12, tzinfo=UTC)
    bounds: dict[str, list[tuple[Any, Any]]] = {
        "day": [(date(2026, 1, 2), date(2026, 1, 3)), ("2026-01-02", "2026-01-03")],
        "at": [
            (noon, noon + timedelta(days=1)),
            ("2026-01-02", "2026-01-03 14:00:00+02:00"),
            (noon.date(), noon.date() + timedelta(days=2)),
        ],
        "local_at": [("2026-01-02", "2026-01-03T12:00:00")],
        "text": [("b", "c"), ("aa", "cc")],
        "price": [(1, 2), (0.5, Decimal("2.5")), ("0.5", "2")],
        "number": [(1, 2), ("1", 2.5)],
    }
    for column, pairs in bounds.items():
        for low, high in pairs:
            kept = [row.id for row in quality(data, [in_range(column, low, high)]).collect()]
            assert kept == [1, 2, None], (column, low, high)
            assert quality(data, [in_range(column, low=low)]).count() == 4
            assert quality(data, [in_range(column, high=high)]).count() == 4


def test_a_row_is_held_against_the_rules_of_one_step_after_the_other(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(spark, tmp_path)
    feed.add([record(value, offset, seconds=offset) for offset, value in enumerate([*VALUES, b"broken"])])
    rows = parse(feed.stream, SCHEMA, dead_letters="dead")
    held = rows.quality([not_null("amount")]).quality([in_range("amount", 0), unique("id", "10 seconds")])
    writer = held.frame.writeStream.format("memory").queryName("quality_steps")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    assert query.awaitTermination(100)
    told = reasons(Rows(spark.table("quality_steps"), "dead"))
    assert {offset: reason for offset, (stage, reason) in told.items() if stage == "quality"} == {
        1: "broken rules: unique(id)",
        2: "broken rules: in_range(amount)",
        3: "broken rules: not_null(amount)",
        4: "broken rules: in_range(amount)",
    }
    assert quality_counts(query) == {"rows": 7, "not_null(amount)": 1, "in_range(amount)": 2, "unique(id)": 1}


def test_stale_times_break_freshness_and_no_time_does_not(spark: SparkSession) -> None:
    data = spark.sql(
        "select * from values (1, now() - interval 2 hours), (2, now()), (3, cast(null as timestamp)) as t(id, at)"
    )
    assert sorted(row.id for row in quality(data, [fresh("at", "1 hour")]).collect()) == [2, 3]


UNUSABLE: dict[str, Callable[[DataFrame], Any]] = {
    "the ttl of expire_after must be a length of time": lambda data: expire_after(data, "soon"),
    "the action of expire_after must be one of dead-letter, drop": lambda data: expire_after(data, 1, action="eat"),  # type: ignore[arg-type]
    "expire_after: there is no column '_source'": lambda data: expire_after(data, 1),
    "expire_after: there is no column 'tiem'; did you mean time?": lambda data: expire_after(data, 1, timestamp="tiem"),
    "the keys of deduplicate: there is no column 'x'": lambda data: deduplicate(data, ["x"], 1, timestamp="time"),
    "the keys of deduplicate: name at least one column": lambda data: deduplicate(data, [], 1, timestamp="time"),
    "the key 'map' of deduplicate or unique has a map": lambda data: deduplicate(
        data.withColumn("map", sf.create_map("id", "id")), ["id", "map"], 1, timestamp="time"
    ),
    "the key 'list' of deduplicate or unique has a map": lambda data: quality(
        data.withColumn("list", sf.array(sf.create_map("id", "id"))), [unique("list", 1, timestamp="time")]
    ),
    "within of deduplicate must be a length of time": lambda data: deduplicate(data, "id", 0, timestamp="time"),
    "route: there is no column 'tga'": lambda data: route(data, "tga", {"a": "t"}),
    "route: name at least one value": lambda data: route(data, "id", {}),
    "not_null(x): there is no column 'x'": lambda data: quality(data, [not_null("x")]),
    "rule 'r': [UNRESOLVED_COLUMN": lambda data: quality(data, [check("r", "nothing > 1")]),
    "rule 'r': [PARSE_SYNTAX_ERROR]": lambda data: quality(data, [check("r", "id >")]),
    "rule 'r': 'id + 1' is not true or false, but bigint": lambda data: quality(data, [check("r", "id + 1")]),
    "the low of in_range(time) must be a value for the column, which is timestamp, not 1": lambda data: quality(
        data, [in_range("time", 1)]
    ),
    "the high of in_range(id) must be a value for the column, which is bigint, not 'much'": lambda data: quality(
        data, [in_range("id", 0, "much")]
    ),
    "in_range(id): give a lowest value": lambda data: in_range("id"),
    "quality: name at least one rule": lambda data: quality(data, []),
    "quality: there are two rules 'not_null(id)'": lambda data: quality(data, [not_null("id"), not_null("id")]),
    "unique(id): there is no column '_source'": lambda data: quality(data, [unique("id", 1)]),
}


@pytest.mark.parametrize("said", UNUSABLE)
def test_a_step_that_cannot_be_taken_is_refused_in_one_line(spark: SparkSession, said: str) -> None:
    data = spark.range(1).withColumn("time", sf.lit(NOON))
    with pytest.raises(RowsError) as raised:
        UNUSABLE[said](data)
    assert str(raised.value).startswith(said)
    assert "\n" not in str(raised.value)


def test_an_entry_of_a_map_is_a_key(spark: SparkSession) -> None:
    data = spark.range(3).withColumn("map", sf.create_map(sf.lit("x"), sf.col("id") % 2)).withColumn("at", sf.lit(NOON))
    assert deduplicate(data, "map.x", "1 hour", timestamp="at").count() == 2
