"""Rows from real topics to real topics, with dead letters."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from levada import Producer
from levada.records import ConsumerRecord
from levada.spark.rows import Rows, RowsError, in_range, not_null, parse, read, write, write_dead_letters
from tests.spark.rows_frames import records
from tests.spark.sink_checks import check_nothing_hangs, committed_records

SCHEMA = "id string, amount double"
RUN_SECONDS = 100
AT_MS = 1_700_000_000_123


def send(bootstrap: str, topic: str, values: Iterable[bytes | None]) -> None:
    with Producer(bootstrap) as producer:
        for number, value in enumerate(values):
            producer.send(
                topic, value, key=f"key-{number}".encode(), headers={"tag": b"vip"}, timestamp_ms=AT_MS + number
            )


def done(query: StreamingQuery | None) -> StreamingQuery:
    assert query is not None
    try:
        assert query.awaitTermination(RUN_SECONDS)
    finally:
        query.stop()
    return query


def headers_of(record: ConsumerRecord) -> dict[str, str]:
    return {name: (value or b"").decode() for name, value in record.headers}


def test_good_rows_and_dead_letters_are_written_together_and_once_across_a_restart(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    source, out, dead = new_topic(2), new_topic(), new_topic()

    def run() -> StreamingQuery:
        rows = read(source, SCHEMA, dead_letters=dead, bootstrap=bootstrap, startingOffsets="earliest")
        held = rows.quality([not_null("id"), in_range("amount", 0, 10)])
        checkpoint = str(tmp_path / "checkpoint")
        return done(
            write(
                held, out, key="id", checkpoint=checkpoint, trigger="available-now", bootstrap=bootstrap, name="orders"
            )
        )

    send(bootstrap, source, [b'{"id":"a","amount":1}', b"broken \xff", b'{"id":"b","amount":11}', None])
    first = run()
    assert [len(progress.sources) for progress in first.recentProgress] == [1] * len(first.recentProgress)
    run()
    send(bootstrap, source, [b'{"id":"c","amount":2,"more":1}', b"{"])
    run()
    written = {record.key: json.loads(record.value or b"") for record in committed_records(bootstrap, out)}
    assert written == {b"a": {"id": "a", "amount": 1.0}, b"c": {"id": "c", "amount": 2.0}}
    letters = committed_records(bootstrap, dead)
    assert sorted(str(letter.value) for letter in letters) == sorted(
        str(value) for value in (b"broken \xff", b'{"id":"b","amount":11}', None, b"{")
    )
    (broken,) = [letter for letter in letters if letter.value == b"broken \xff"]
    assert (broken.key, broken.timestamp_ms) == (b"key-1", AT_MS + 1)
    told = headers_of(broken)
    place = int(told.pop("levada-dead-letter-partition")), int(told.pop("levada-dead-letter-offset"))
    assert place in {(partition, offset) for partition in (0, 1) for offset in range(4)}
    assert told == {
        "tag": "vip",
        "levada-dead-letter-reason": "the value is not UTF-8",
        "levada-dead-letter-stage": "parse",
        "levada-dead-letter-topic": source,
        "levada-dead-letter-timestamp": str(AT_MS + 1),
    }
    (refused,) = [letter for letter in letters if b"11" in (letter.value or b"")]
    assert headers_of(refused)["levada-dead-letter-reason"] == "broken rules: in_range(amount)"
    for topic in (out, dead):
        assert all(not headers_of(record) for record in committed_records(bootstrap, out))
        check_nothing_hangs(bootstrap, topic)


def test_a_batch_is_routed_with_headers_partitions_and_times(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    source, small, large, dead = new_topic(), new_topic(2), new_topic(2), new_topic()
    send(bootstrap, source, [b"1", b"2000", b"many", None])
    rows = read(source, format="string", dead_letters=dead, bootstrap=bootstrap, stream=False, tombstones="keep")
    size = sf.expr("case when try_cast(value as int) > 1000 then 'L' when value = '1' then 'S' end")
    hop = sf.array(sf.struct(sf.lit("hop").alias("key"), sf.lit(b"1").alias("value")))
    ready = rows.transform(
        lambda frame: frame.withColumns(
            {"size": size, "_headers": hop, "where": sf.lit(1), "at": sf.timestamp_millis(sf.lit(5))}
        )
    )
    routed = ready.route("size", {"S": small, "L": large})
    result = write(
        routed,
        key=sf.col("_source.key"),
        format="string",
        partition="where",
        timestamp="at",
        keep_headers=True,
        bootstrap=bootstrap,
    )
    assert result is None
    (one,) = committed_records(bootstrap, small)
    assert (one.value, one.key, one.partition, one.timestamp_ms) == (b"1", b"key-0", 1, 5)
    assert headers_of(one) == {"tag": "vip", "hop": "1"}
    assert [record.value for record in committed_records(bootstrap, large)] == [b"2000"]
    letters = committed_records(bootstrap, dead)
    assert [(letter.value, letter.timestamp_ms) for letter in letters] == [(b"many", AT_MS + 2), (None, AT_MS + 3)]
    assert {headers_of(letter)["levada-dead-letter-stage"] for letter in letters} == {"route"}


def test_dead_letters_are_written_alone_when_good_rows_are_aggregated(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    source, counts, dead = new_topic(), new_topic(), new_topic()
    send(bootstrap, source, [b'{"id":"a"}', b"broken", b'{"id":"a"}'])
    rows = read(source, SCHEMA, dead_letters=dead, bootstrap=bootstrap, startingOffsets="earliest")
    counted = rows.good.groupBy("id").count()
    running: dict[str, Any] = {"trigger": "available-now", "bootstrap": bootstrap}
    for _ in range(2):
        done(write(counted, counts, key="id", output_mode="update", checkpoint=str(tmp_path / "counts"), **running))
    done(write_dead_letters(rows, checkpoint=str(tmp_path / "dead"), **running))
    send(bootstrap, source, [b'{"id":"a"}'])
    done(write(counted, counts, key="id", output_mode="update", checkpoint=str(tmp_path / "counts"), **running))
    assert [record.value for record in committed_records(bootstrap, counts)] == [
        b'{"id":"a","count":2}',
        b'{"id":"a","count":3}',
    ]
    assert [record.value for record in committed_records(bootstrap, dead)] == [b"broken"]


def stream(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").load().withColumn("id", sf.lit("a"))


def rejecting(spark: SparkSession) -> Rows:
    return parse(records(spark, []), SCHEMA, dead_letters="dead")


UNUSABLE: dict[str, Callable[[SparkSession], Any]] = {
    "write: a stream needs a directory for its progress": lambda spark: write(stream(spark), "t"),
    "write: name a topic, or give each row its own": lambda spark: write(stream(spark), checkpoint="c"),
    "the key of write: there is no column 'ix'": lambda spark: write(stream(spark), "t", key="ix", checkpoint="c"),
    "the partition of write: there is no column 'p'": lambda spark: write(rejecting(spark), "t", partition="p"),
    "the format must be one of": lambda spark: write(rejecting(spark), "t", format="xml"),  # type: ignore[arg-type]
    "the value of write in format 'string': there is no column 'value'": lambda spark: write(
        rejecting(spark), "t", format="string"
    ),
    "write: format 'string' needs text or bytes in 'value', not bigint": lambda spark: write(
        spark.range(1).toDF("value"), "t", format="string"
    ),
    "write: format 'json' takes no schema": lambda spark: write(rejecting(spark), "t", schema="id int"),
    "write: there is no column to write": lambda spark: write(spark.range(1).toDF("_id"), "t"),
    "write: option 'topic' is set already": lambda spark: write_dead_letters(rejecting(spark), topic="t"),
    "write: trigger is for streams": lambda spark: write(rejecting(spark), "t", trigger="available-now"),
    "the trigger of write, unless it is 'available-now', must be": lambda spark: write(
        stream(spark), "t", checkpoint="c", trigger="often"
    ),
    "write: keep_headers needs the column '_source'": lambda spark: write(spark.range(1), "t", keep_headers=True),
    "the Avro schema of write: there is no column 'name'": lambda spark: write(
        spark.range(1),
        "t",
        format="avro",
        schema={"type": "record", "name": "R", "fields": [{"name": "name", "type": "string"}]},
    ),
}


@pytest.mark.parametrize("said", UNUSABLE)
def test_what_cannot_be_written_is_refused_in_one_line(spark: SparkSession, said: str) -> None:
    with pytest.raises(RowsError) as raised:
        UNUSABLE[said](spark)
    assert str(raised.value).startswith(said)
    assert "\n" not in str(raised.value)
