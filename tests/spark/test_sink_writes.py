"""Batch writes with a real Spark: columns, refusals, all of it or nothing, versions."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pandas as pd
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from levada.model.hashes import partition_for_key
from tests.spark.sink_checks import check_nothing_hangs, committed_records, numbers, values

HEADERS = "array(named_struct('key', 'tag', 'value', cast('vip' as binary)))"


def write(frame: DataFrame, bootstrap: str, mode: str = "append", **options: str) -> None:
    writer = frame.write.format("levada").option("kafka.bootstrap.servers", bootstrap)
    writer.options(**options).mode(mode).save()


def last_line(error: pytest.ExceptionInfo[PySparkException]) -> str:
    """What our own code said, in what Spark made of it."""
    return next(line for line in str(error.value).splitlines() if line.lstrip().startswith("levada.spark."))


def numbered(spark: SparkSession, count: int, partitions: int = 4) -> DataFrame:
    return spark.range(0, count, 1, partitions).selectExpr("cast(id as string) value")


def test_all_columns_arrive_as_they_were_written(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=3)
    frame = spark.sql(
        f"select cast('k' as binary) key, 'v' value, {HEADERS} headers, '{topic}' topic, 2 partition, "
        "timestamp'2026-01-02 03:04:05.678' timestamp"
    )
    write(frame, bootstrap)
    (record,) = committed_records(bootstrap, topic)
    assert (record.key, record.value, record.partition) == (b"k", b"v", 2)
    assert list(record.headers) == [("tag", b"vip")]
    written_at = datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)
    assert record.timestamp_ms == round(written_at.timestamp() * 1_000)


def test_rows_with_nulls_get_what_a_producer_gives(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    """A partition by the key, or any; no key; no value; the time of now; no headers."""
    topic = new_topic(partitions=4)
    rows = spark.createDataFrame(
        [("a", "1", 3), ("a", "2", None), ("b", None, None), (None, "4", None), (None, "5", 1)],
        "key string, value string, partition int",
    ).withColumn("timestamp", f.lit(None).cast("timestamp"))
    rows = rows.withColumn("headers", f.expr(f"if(value = '1', {HEADERS}, null)"))
    write(rows.coalesce(1), bootstrap, topic=topic)
    found = {(record.key, record.value): record for record in committed_records(bootstrap, topic)}
    assert len(found) == 5
    assert found[b"a", b"1"].partition == 3
    assert found[b"a", b"2"].partition == partition_for_key(b"a", 4)
    assert found[b"b", None].partition == partition_for_key(b"b", 4)
    assert found[None, b"5"].partition == 1
    assert [len(found[key].headers) for key in ((b"a", b"1"), (b"a", b"2"))] == [1, 0]
    assert found[b"a", b"2"].timestamp_ms > 1_600_000_000_000


def test_each_row_goes_to_the_topic_of_its_column_unless_the_option_names_one(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    even, odd, only = new_topic(), new_topic(), new_topic()
    frame = spark.range(10).selectExpr("cast(id as string) value", f"if(id % 2 = 0, '{even}', '{odd}') topic")
    write(frame, bootstrap)
    write(frame, bootstrap, topic=only)
    assert (numbers(bootstrap, even), numbers(bootstrap, odd)) == ([0, 2, 4, 6, 8], [1, 3, 5, 7, 9])
    assert numbers(bootstrap, only) == list(range(10))


@pytest.mark.parametrize(
    ("columns", "options", "mode", "expected"),
    [
        ("'1' value", {"topic": "t"}, "overwrite", "a topic cannot be overwritten, only added to: use mode('append')"),
        ("1 value", {"topic": "t"}, "append", "column 'value' must be string or binary, not int: cast it"),
        ("'1' value", {}, "append", "no topic is named: set the option 'topic', or add a column 'topic'"),
        ("'1' value, 2 amount", {"topic": "t"}, "append", "column 'amount' cannot be written to a topic"),
        ("'1' value", {"topik": "t"}, "append", "unknown option 'topik'; did you mean topic?"),
    ],
)
def test_what_cannot_be_written_is_refused_when_it_is_planned(
    spark: SparkSession, bootstrap: str, columns: str, options: dict[str, str], mode: str, expected: str
) -> None:
    with pytest.raises(AnalysisException) as refused:
        write(spark.sql(f"select {columns}"), bootstrap, mode, **options)
    assert expected in last_line(refused)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("'1' value, cast(null as string) topic", "column 'topic' is null in 1 row(s)"),
        ("'1' value, 'no/topic' topic", "INVALID_TOPIC_EXCEPTION"),
        ("'1' value, '{topic}' topic, 7 partition", "has no partition 7, only 0 to 0"),
    ],
)
def test_a_row_that_cannot_be_written_fails_the_write_with_one_line(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], columns: str, expected: str
) -> None:
    topic = new_topic()
    good = spark.sql(f"select '0' value, '{topic}' topic, 0 partition")
    bad = spark.sql(f"select {columns.format(topic=topic)}")
    with pytest.raises(PySparkException) as failed:
        write(good.unionByName(bad, allowMissingColumns=True), bootstrap)
    assert expected in last_line(failed)
    assert values(bootstrap, topic) == []
    check_nothing_hangs(bootstrap, topic)


def failing(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Passes rows on, and fails in the task that has number 15, after it has passed some."""
    for batch in batches:
        yield batch
        if (batch["value"] == "15").any():
            raise RuntimeError("this task was to fail")


def failing_at_first(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    from pyspark import TaskContext

    context = TaskContext.get()
    for batch in batches:
        yield batch
        if context is not None and context.attemptNumber() == 0 and context.partitionId() != 1:
            raise RuntimeError("the first attempt was to fail")


def test_a_write_with_a_task_that_fails_shows_nothing(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=2)
    with pytest.raises(PySparkException, match="this task was to fail"):
        write(numbered(spark, 20).mapInPandas(failing, "value string"), bootstrap, topic=topic)
    assert values(bootstrap, topic) == []
    check_nothing_hangs(bootstrap, topic)


def test_tasks_that_are_tried_again_write_each_row_once(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=2)
    write(numbered(spark, 20).mapInPandas(failing_at_first, "value string"), bootstrap, topic=topic)
    assert numbers(bootstrap, topic) == list(range(20))
    check_nothing_hangs(bootstrap, topic)


def test_a_version_is_written_once_to_each_topic(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic, other = new_topic(), new_topic()
    for target, version in ((topic, 3), (topic, 3), (other, 3), (topic, 2), (topic, 4)):
        write(numbered(spark, 2, 1), bootstrap, topic=target, txnAppId=f"app-{topic}", txnVersion=str(version))
    assert numbers(bootstrap, topic) == [0, 0, 1, 1]
    assert numbers(bootstrap, other) == [0, 1]
    check_nothing_hangs(bootstrap, topic)


@pytest.mark.parametrize("delivery", ["at-least-once", "atomic-tasks", "exactly-once"])
def test_rows_arrive_with_every_delivery(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], delivery: str
) -> None:
    topic = new_topic(partitions=2)
    write(numbered(spark, 1_000), bootstrap, topic=topic, delivery=delivery)
    assert numbers(bootstrap, topic) == list(range(1_000))
    check_nothing_hangs(bootstrap, topic)
