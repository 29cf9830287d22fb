"""Three hops with an aggregation between them, and the question where a record came from."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from levada import Admin, Consumer, Producer
from levada.client.types import TopicPartition
from levada.records import ConsumerRecord
from levada.spark.history import NoSuchRecord, Origin, origins, trace, traced
from levada.spark.history.hops import TRACE_HEADER, Hop, SourceRange, encode, hops_of, ways
from levada.spark.history.origins import RecordState
from levada.spark.rows import read, write

NewTopic = Callable[..., str]
ORDERS = [("ann", 5), ("bob", 7), ("ann", 3), ("ann", 9), ("bob", -1)]
POINTS = "user string, points long"


@pytest.fixture(autouse=True)
def brokers(spark: SparkSession, bootstrap: str) -> None:
    spark.conf.set("spark.levada.bootstrap", bootstrap)


def records(bootstrap: str, topic: str) -> list[ConsumerRecord]:
    partition = TopicPartition(topic, 0)
    found: list[ConsumerRecord] = []
    with Consumer(bootstrap, auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        while consumer.position(partition) < end:
            found += consumer.poll(1.0)
    return found


def one_with(bootstrap: str, topic: str, key: bytes) -> ConsumerRecord:
    return next(record for record in records(bootstrap, topic) if record.key == key)


def send_orders(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap) as producer:
        for user, amount in ORDERS:
            producer.send(topic, json.dumps({"user": user, "amount": amount}).encode(), key=user.encode())


def totals_of(points: DataFrame) -> DataFrame:
    return points.groupBy("user").agg(sf.sum("points").alias("points"), traced())


def coordinates(found: Origin) -> list[tuple[int, str | None, str]]:
    return [(each.level, each.hop, str(each.coordinates)) for each in found.walk()]


def test_a_record_is_followed_over_three_hops_and_through_an_aggregation(
    bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    orders, points, totals, letters = (new_topic() for _ in range(4))
    send_orders(bootstrap, orders)
    paid = read(orders, "user string, amount long", startingOffsets="earliest").good.where("amount > 0")
    query = write(
        trace(paid.selectExpr("user", "amount * 10 AS points", "_source"), "points"),
        points,
        key="user",
        checkpoint=str(tmp_path),
        trigger="available-now",
    )
    assert query is not None
    query.awaitTermination()
    write(trace(totals_of(read(points, POINTS, stream=False).good), "totals"), totals, key="user")
    write(trace(read(totals, POINTS, stream=False), "letters", run="r1"), letters, key="user")

    of_ann = one_with(bootstrap, letters, b"ann")
    found = origins(letters, 0, of_ann.offset)
    total = one_with(bootstrap, totals, b"ann")
    point_offsets = [record.offset for record in records(bootstrap, points) if record.key == b"ann"]
    assert coordinates(found) == [
        (0, "letters", f"{letters}-0-{of_ann.offset}"),
        (1, "totals", f"{totals}-0-{total.offset}"),
        (2, "points", f"{points}-0-{point_offsets[0]}"),
        (3, None, f"{orders}-0-0"),
        (2, "points", f"{points}-0-{point_offsets[1]}"),
        (3, None, f"{orders}-0-2"),
        (2, "points", f"{points}-0-{point_offsets[2]}"),
        (3, None, f"{orders}-0-3"),
    ]
    assert found.run == "r1"
    assert [str(each.coordinates) for each in found.beginnings] == [f"{orders}-0-{offset}" for offset in (0, 2, 3)]
    assert all(each.key == b"ann" and each.timestamp_ms for each in found.walk())
    lines = str(found).splitlines()
    assert lines[0].startswith(f"{letters}-0-{of_ann.offset} key=ann by letters in run r1 at 20")
    assert lines[3].startswith(f"      {orders}-0-0 key=ann at 20")


def test_what_retention_removed_is_gone_and_the_way_before_it_is_still_told(
    bootstrap: str, new_topic: NewTopic
) -> None:
    first, second, third = (new_topic(configs={"retention.ms": "-1"}) for _ in range(3))
    with Producer(bootstrap) as producer:
        producer.send(first, b'{"user": "ann", "points": 1}', key=b"ann", timestamp_ms=1_700_000_000_000).result()
    write(trace(read(first, POINTS, stream=False), "one"), second, key="user")
    write(trace(read(second, POINTS, stream=False), "two"), third, key="user")
    with Admin(bootstrap) as admin:
        admin.delete_records({TopicPartition(second, 0): -1, TopicPartition(first, 0): -1}).raise_any()
    found = origins(third, 0, 0)
    assert [(each.level, each.hop, each.topic, each.state) for each in found.walk()] == [
        (0, "two", third, RecordState.READ),
        (1, "one", second, RecordState.GONE),
        (2, None, first, RecordState.GONE),
    ]
    assert found.beginnings[0].timestamp_ms == 1_700_000_000_000
    assert f"{first}-0-0 (gone) at 2023-11-14T22:13:20.000Z" in str(found)


def test_a_place_where_nothing_was_written_is_said(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with pytest.raises(NoSuchRecord, match=f"{topic}-0 has no offset 0: it ends at 0"):
        origins(topic, 0, 0)
    with pytest.raises(NoSuchRecord, match=f"there is no partition {topic}-7"):
        origins(topic, 7, 0)


def sourced(spark: SparkSession) -> DataFrame:
    """Rows of two partitions of one topic and of another topic, with the second of a group of 25 last."""
    places = [("many", "t", offset % 2, offset) for offset in range(25)] + [("one", "u", 3, 17)]
    frame = spark.createDataFrame(places, "name string, topic string, partition int, offset long")
    source = sf.struct("topic", "partition", "offset", sf.timestamp_millis(sf.col("offset") + 1_000).alias("timestamp"))
    return frame.select("name", source.alias("_source"))


@pytest.mark.parametrize("partitions", [None, {"t": 2, "u": 4}])
def test_an_aggregate_keeps_ranges_counts_and_the_latest_offsets(
    spark: SparkSession, partitions: dict[str, int] | None
) -> None:
    grouped = sourced(spark).groupBy("name").agg(traced(listed=3, partitions=partitions))
    stamps = {row["name"]: row["_headers"] for row in trace(grouped, "sum").collect()}
    [many] = hops_of([(each["key"], bytes(each["value"])) for each in stamps["many"]])
    assert [(each.partition, each.first, each.last, each.count) for each in many.sources] == [
        (0, 0, 24, 13),
        (1, 1, 23, 12),
    ]
    assert [(each.since_ms, each.until_ms) for each in many.sources] == [(1_000, 1_024), (1_001, 1_023)]
    assert 24 in many.sources[0].offsets
    assert many.sources[0].unlisted > 0
    [one] = hops_of([(each["key"], bytes(each["value"])) for each in stamps["one"]])
    assert [(each.topic, each.partition, each.offsets, each.unlisted) for each in one.sources] == [("u", 3, (17,), 0)]


def test_a_partition_that_was_not_named_is_an_error_and_not_forgotten(spark: SparkSession) -> None:
    grouped = sourced(spark).groupBy("name").agg(traced(partitions={"t": 2, "u": 3}))
    with pytest.raises(PySparkException, match=r"does not know all sources of the group; one is .*u.*17"):
        grouped.collect()


def test_a_join_has_the_ways_of_both_sides(spark: SparkSession) -> None:
    clicked = encode(Hop("clicked", 1, (SourceRange("clicks", 0, 4, 4, 1, (4,), 1_000, 1_000),)))
    place = "topic: string, partition: int, offset: bigint, timestamp: timestamp"
    kind = f"struct<{place}, headers: array<struct<key: string, value: binary>>>"
    seen = ("seen", 0, 1, datetime.fromtimestamp(2, UTC), [(TRACE_HEADER, clicked), ("other", b"x")])
    frame = spark.createDataFrame(
        [(seen, ("paid", 2, 3, datetime.fromtimestamp(3, UTC), None))], f"left {kind}, right {kind}"
    )
    [row] = trace(frame, "alarms", sources=["left", "right"]).collect()
    stamps = hops_of([(each["key"], bytes(each["value"])) for each in row["_headers"]])
    assert [hop.name for hop in stamps] == ["clicked", "alarms"]
    assert ways(stamps) == [
        (SourceRange("seen", 0, 1, 1, 1, (1,), 2_000, 2_000, hops=1), stamps[:1]),
        (SourceRange("paid", 2, 3, 3, 1, (3,), 3_000, 3_000), []),
    ]


def test_rows_that_have_lost_their_source_cannot_be_stamped(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="hop 'x' has no sources: keep the column _source, or aggregate it"):
        trace(spark.range(1), "x")
