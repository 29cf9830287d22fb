"""Batch reads of topics: which records, which columns, which errors."""

import json
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from levada import Admin, Producer
from levada.client.types import TopicPartition
from levada.spark.source.patterns import PatternRefused, compiled
from tests.spark.sourcing import batch, numbered, send, values
from tests.unit.spark.test_source_patterns import NAMES, SAME

NewTopic = Callable[..., str]
SPARKS_OWN_COLUMNS = [
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
]
SPARKS_OWN_HEADERS = StructField(
    "headers", ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
)


def test_a_record_has_the_columns_of_sparks_kafka_source(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    with Producer(bootstrap) as producer:
        producer.send(
            topic, b"v", key=b"k", partition=1, timestamp_ms=1_700_000_000_123, headers=[("a", b"1"), ("b", None)]
        )
        producer.send(topic, None, partition=0, timestamp_ms=1_700_000_000_456)
    plain = batch(spark, bootstrap, subscribe=topic)
    with_headers = batch(spark, bootstrap, subscribe=topic, includeHeaders="true")
    assert plain.schema == StructType(SPARKS_OWN_COLUMNS)
    assert with_headers.schema == StructType([*SPARKS_OWN_COLUMNS, SPARKS_OWN_HEADERS])
    empty, full = with_headers.orderBy("partition").collect()
    assert (empty.key, empty.value, empty.topic, empty.partition, empty.offset) == (None, None, topic, 0, 0)
    assert empty.headers is None
    assert (bytes(full.key), bytes(full.value), full.partition, full.timestampType) == (b"k", b"v", 1, 0)
    assert [(header.key, header.value) for header in full.headers] == [("a", b"1"), ("b", None)]
    micros = with_headers.selectExpr("unix_micros(timestamp) t", "partition").orderBy("partition").collect()
    assert [row.t for row in micros] == [1_700_000_000_456_000, 1_700_000_000_123_000]


def test_a_read_begins_and_ends_where_the_options_say(spark: SparkSession, bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    with Producer(bootstrap) as producer:
        for number in range(10):
            for partition in (0, 1):
                producer.send(topic, b"%d-%d" % (partition, number), partition=partition, timestamp_ms=1_000 + number)

    def read(**options: object) -> dict[int, list[int]]:
        rows = batch(spark, bootstrap, subscribe=topic, **options).select("partition", "offset").collect()
        return {each: sorted(row.offset for row in rows if row.partition == each) for each in (0, 1)}

    def both(start: int, end: int) -> dict[int, list[int]]:
        return {0: list(range(start, end)), 1: list(range(start, end))}

    def offsets(first: int, second: int) -> str:
        return json.dumps({topic: {"0": first, "1": second}})

    cases: list[tuple[dict[str, object], dict[int, list[int]]]] = [
        ({}, both(0, 10)),
        ({"startingOffsets": "earliest", "endingOffsets": "latest"}, both(0, 10)),
        ({"startingOffsets": offsets(3, -2), "endingOffsets": offsets(5, -1)}, {0: [3, 4], 1: list(range(10))}),
        ({"startingTimestamp": 1_004}, both(4, 10)),
        ({"startingTimestamp": 1_004, "endingTimestamp": 1_006}, both(4, 6)),
        ({"endingTimestamp": 9_999}, both(0, 10)),
        ({"startingOffsetsByTimestamp": offsets(1_002, 1_009)}, {0: list(range(2, 10)), 1: [9]}),
        ({"endingOffsetsByTimestamp": offsets(1_002, 9_999)}, {0: [0, 1], 1: list(range(10))}),
        ({"startingTimestamp": 9_999, "startingOffsetsByTimestampStrategy": "latest"}, both(10, 10)),
        ({"startingTimestamp": 1_008, "startingOffsets": offsets(0, 0)}, both(8, 10)),
    ]
    for options, expected in cases:
        assert read(**options) == expected, options


def test_topics_are_chosen_by_names_by_a_pattern_or_by_partitions(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic
) -> None:
    one, two, three = new_topic(1), new_topic(2), new_topic(5)
    for topic, partitions in ((one, 1), (two, 2), (three, 5)):
        for partition in range(partitions):
            send(bootstrap, topic, numbered(10), partition)
    assert batch(spark, bootstrap, subscribe=f"{one}, {two},{three}").count() == 80
    assert batch(spark, bootstrap, subscribePattern=f"({one}|{three})").count() == 60
    assert batch(spark, bootstrap, subscribePattern=one[:-1]).count() == 0
    chosen = batch(spark, bootstrap, assign=json.dumps({two: [1], three: [0, 4]}))
    found = {(row.topic, row.partition) for row in chosen.collect()}
    assert found == {(two, 1), (three, 0), (three, 4)}
    assert chosen.count() == 30


PIECES = (
    *("o", "a", "-", "1", "_", "E", ".", "|", "(", ")", "[", "]", "[^", "a-z", "&", "*", "+", "?", "^", "$", "}", ","),
    *("(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!", "(?i)", "(?i:", "{2}", "{1,2}", "++"),
    *(r"\d", r"\w", r"\b", r"\B", r"\S", r"\.", r"\-", r"\1", r"\A"),
)


def test_a_pattern_that_is_taken_chooses_the_topics_that_java_would(spark: SparkSession) -> None:
    patterns = [pattern for pattern, _ in SAME]
    random = Random(7)
    while len(patterns) < 300:
        pattern = "".join(random.choice(PIECES) for _ in range(random.randint(1, 7)))
        with suppress(PatternRefused):
            compiled(pattern)
            patterns.append(pattern)
    jvm: Any = spark._jvm
    for pattern in patterns:
        java = jvm.java.util.regex.Pattern.compile(pattern)
        python = compiled(pattern)
        for name in NAMES:
            assert java.matcher(name).matches() == bool(python.fullmatch(name)), (pattern, name)


def test_empty_topics_are_empty_tables(spark: SparkSession, bootstrap: str, new_topic: NewTopic) -> None:
    assert batch(spark, bootstrap, subscribe=new_topic(3)).collect() == []


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"subscribe": "no-such-topic"}, "topic 'no-such-topic' is not there"),
        ({"subscribe": "t", "startingOffset": "earliest"}, "unknown option 'startingoffset'"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(
    spark: SparkSession, bootstrap: str, options: dict[str, str], line: str
) -> None:
    with pytest.raises(PySparkException, match="OptionError") as raised:
        batch(spark, bootstrap, **options).collect()
    assert line in str(raised.value)


def test_offsets_that_are_not_there_fail_or_are_left_out(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    send(bootstrap, topic, numbered(10))
    with Admin(bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): 4}).raise_any()
    wanted = {
        "startingOffsets": json.dumps({topic: {"0": 2}}),
        "endingOffsets": json.dumps({topic: {"0": 15}}),
    }
    with pytest.raises(PySparkException) as raised:
        batch(spark, bootstrap, subscribe=topic, **wanted).collect()
    assert f"data loss: offsets 2 to 3 of {topic}-0 are deleted; it begins at offset 4" in str(raised.value)
    there = batch(spark, bootstrap, subscribe=topic, failOnDataLoss="false", **wanted)
    assert values(there) == list(numbered(6, first=4))


def test_large_ranges_are_split_among_more_tasks(spark: SparkSession, bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    send(bootstrap, topic, numbered(90), 0)
    send(bootstrap, topic, numbered(10, first=90), 1)
    assert batch(spark, bootstrap, subscribe=topic).rdd.getNumPartitions() == 2
    split = batch(spark, bootstrap, subscribe=topic, minPartitions=4)
    assert split.rdd.getNumPartitions() == 4
    assert values(split) == list(numbered(100))
    assert batch(spark, bootstrap, subscribe=topic, maxRecordsPerPartition=20).rdd.getNumPartitions() == 6


FILTERED = {
    "partition = 1": 6,
    "partition <> 1 and offset in (0, 5)": 2,
    "topic like 'no%'": 0,
    "timestamp >= timestamp'1970-01-01 00:00:02.5'": 6,
    "timestamp < timestamp'1970-01-01 00:00:02.5'": 6,
    "timestamp < timestamp'1970-01-01 00:00:00'": 2,
    "timestamp >= timestamp'1969-12-31 00:00:00'": 12,
    "offset > 100": 0,
    "true": 12,
}
"""How many of twelve records pass: two partitions, and times that do not rise with the offsets."""


@pytest.mark.parametrize("pushdown", ["true", "false"])
def test_a_frame_that_is_used_often_has_the_right_rows_for_each_filter(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, pushdown: str
) -> None:
    """Spark keeps what was planned for one use of a frame for all others."""
    topic = new_topic(2)
    with Producer(bootstrap) as producer:
        for offset, time_ms in enumerate([1_000, 2_000, 3_000, -1_500, 2_500, 4_000]):
            for partition in (0, 1):
                producer.send(topic, b"%d-%d" % (partition, offset), partition=partition, timestamp_ms=time_ms)
    setting = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(setting, "false") or "false"
    spark.conf.set(setting, pushdown)
    try:
        frame = batch(spark, bootstrap, subscribe=topic)
        assert {condition: frame.where(condition).count() for condition in FILTERED} == FILTERED
        both = frame.where("partition = 0").union(frame.where("partition = 1 and offset >= 4"))
        assert both.count() == 8
        frame.createOrReplaceTempView("records")
        counted = spark.sql(
            "select (select count(*) from records where offset < 1) few, count(*) more from records where offset < 3"
        )
        assert tuple(counted.first() or ()) == (2, 6)
        assert frame.count() == 12
    finally:
        spark.conf.set(setting, before)
        spark.catalog.dropTempView("records")
