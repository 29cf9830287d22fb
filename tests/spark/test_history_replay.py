"""A wrong computation is replaced by replaying its input; readers that honour retractions see the right output."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from levada import Producer
from levada.spark.history import (
    RangeError,
    Replayed,
    ReplayRefused,
    appended,
    effective,
    reconcile,
    replay,
    trace,
    traced,
)
from levada.spark.history.appended import Appended
from levada.spark.rows import parse, read, write

NewTopic = Callable[..., str]
SCHEMA = "id long, user string, amount long"
POINTS = "id long, user string, points long"
COUNT = 40
BASE_MS = 1_700_000_000_000
FOR_EVER = {"retention.ms": "-1"}


@pytest.fixture(autouse=True)
def brokers(spark: SparkSession, bootstrap: str) -> None:
    spark.conf.set("spark.levada.bootstrap", bootstrap)


def send_orders(bootstrap: str, topic: str) -> None:
    """Of eight users, one a second, by turns to two partitions."""
    with Producer(bootstrap) as producer:
        for number in range(COUNT):
            order = {"id": number, "user": f"user-{number % 8}", "amount": number}
            producer.send(
                topic, json.dumps(order).encode(), partition=number % 2, timestamp_ms=BASE_MS + number * 1_000
            )


def points(factor: int) -> Callable[[DataFrame], DataFrame]:
    def build(orders: DataFrame) -> DataFrame:
        computed = orders.select("id", "user", (sf.col("amount") * factor).alias("points"), "_source")
        return trace(computed, "points")

    return build


def run_live(topic: str, output: str) -> None:
    """The computation that went wrong from the fifth order of each partition on."""
    orders = read(topic, SCHEMA, stream=False).good
    amount = sf.col("amount") * sf.when(sf.col("_source.offset") < 5, 10).otherwise(1_000)
    write(trace(orders.select("id", "user", amount.alias("points"), "_source"), "points"), output, key="user")


def rows_of(frame: DataFrame) -> DataFrame:
    return parse(frame, POINTS, dead_letters="none").good


def right(topic: str) -> DataFrame:
    return points(10)(read(topic, SCHEMA, stream=False).good)


def replay_points(topic: str, start: object, end: object, output: str, **others: object) -> Replayed:
    return replay(topic, start, end, build=points(10), output=output, schema=SCHEMA, key="user", **others)  # type: ignore[arg-type]


def test_a_replay_replaces_exactly_the_wrong_output_and_a_second_one_changes_nothing(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic
) -> None:
    topic, output = new_topic(partitions=2, configs=FOR_EVER), new_topic(partitions=3)
    send_orders(bootstrap, topic)
    run_live(topic, output)
    wrong_range = {"0": [5, COUNT // 2], "1": [5, COUNT // 2]}
    # What is only planned must not be there: the counts below would be other ones.
    planned = replay_points(topic, wrong_range, None, output, run="fix", dry_run=True)
    assert (planned.input_rows, planned.retracted, planned.written, planned.is_dry) == (30, 30, 30, True)
    done = replay_points(topic, wrong_range, None, output, run="fix")
    assert (done.input_rows, done.retracted, done.written) == (30, 30, 30)
    assert str(done) == (
        f"run fix read 30 records ({topic}-0 5 to 19, {topic}-1 5 to 19), retracted 30 and wrote 30 in {output}"
    )
    report = reconcile(rows_of(effective(output)), right(topic), keys="id")
    assert report.agrees, report

    again = replay_points(topic, wrong_range, None, output, run="fix")
    assert (again.was_done, again.retracted, again.written) == (True, 0, 0)
    check_order_and_headers(output)


@pytest.mark.parametrize("tombstones", ["reject", "drop", "keep"])
def test_a_replay_treats_tombstones_as_the_live_query_does(
    bootstrap: str, new_topic: NewTopic, tombstones: Literal["reject", "drop", "keep"]
) -> None:
    topic, output = new_topic(configs=FOR_EVER), new_topic()
    with Producer(bootstrap) as producer:
        producer.send(topic, b'{"id":1,"user":"ann","amount":1}', key=b"ann")
        producer.send(topic, None, key=b"ann")
    live = read(topic, SCHEMA, tombstones=tombstones, dead_letters=f"{topic}.dead", stream=False).good
    write(points(1)(live), output, key="user")
    done = replay_points(topic, None, None, output, tombstones=tombstones)
    written = 2 if tombstones == "keep" else 1
    assert (done.input_rows, done.retracted, done.written) == (2, written, written)
    assert effective(output).count() == written


def check_order_and_headers(output: str) -> None:
    """Each retraction is in the partition of what it retracts, with its key, before the correction of that key."""
    everything = read(output, POINTS, tombstones="keep", stream=False).good.select("id", "_source.*").collect()
    places = {f"{row['topic']}-{row['partition']}-{row['offset']}": row for row in everything}
    assert len(everything) == COUNT + 30 + 30
    retracted: dict[str, tuple[int, int]] = {}
    for row in everything:
        headers = {each["key"]: bytes(each["value"]).decode() for each in row["headers"]}
        if "levada-retracts" in headers:
            original = places[headers["levada-retracts"]]
            assert (row["value"], bytes(row["key"]), row["partition"]) == (
                None,
                bytes(original["key"]),
                original["partition"],
            )
            assert headers["levada-run"] == "fix"
            retracted[original["id"]] = (row["partition"], row["offset"])
    corrected = [row for row in everything if row["value"] and "levada-run" in {h["key"] for h in row["headers"]}]
    assert len(corrected) == len(retracted) == 30
    for row in corrected:
        partition, offset = retracted[row["id"]]
        assert row["partition"] == partition
        assert row["offset"] > offset


def test_a_time_range_is_replayed_into_another_topic_and_again_by_another_run(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic
) -> None:
    topic, output = new_topic(partitions=2, configs=FOR_EVER), new_topic()
    send_orders(bootstrap, topic)
    start = datetime.fromtimestamp(BASE_MS / 1_000 + 10, UTC)
    first = replay_points(topic, start, "2023-11-14T22:13:50Z", output)
    assert (first.input_rows, first.retracted, first.written) == (20, 0, 20)
    second = replay_points(topic, start, "2023-11-14T22:13:40+00:00", output)
    assert (second.input_rows, second.retracted, second.written) == (10, 10, 10)
    assert second.run != first.run
    expected = right(topic).where("id >= 10 and id < 30")
    report = reconcile(rows_of(effective(output)), expected, keys="id")
    assert report.agrees, report


def test_aggregates_that_straddle_the_range_are_refused_with_the_range_that_would_do(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic
) -> None:
    topic, output = new_topic(partitions=2, configs=FOR_EVER), new_topic()
    send_orders(bootstrap, topic)

    def totals(factor: int) -> Callable[[DataFrame], DataFrame]:
        def build(orders: DataFrame) -> DataFrame:
            sums = orders.groupBy("user").agg((sf.sum("amount") * factor).alias("points"), traced(listed=2))
            return trace(sums, "totals")

        return build

    write(totals(1_000)(read(topic, SCHEMA, stream=False).good), output, key="user")
    with pytest.raises(
        ReplayRefused, match=r"8 records of .* replay \{0: \(0, 20\), 1: \(0, 20\)\}, or pass straddled"
    ):
        replay(topic, {0: (5, 20), 1: (5, 20)}, build=totals(1), output=output, schema=SCHEMA, key="user")
    done = replay(topic, {0: (0, 20), 1: (0, 20)}, build=totals(1), output=output, schema=SCHEMA, key="user")
    assert (done.input_rows, done.retracted, done.written) == (40, 8, 8)
    computed = parse(effective(output), "user string, points long", dead_letters="none").good
    expected = totals(1)(read(topic, SCHEMA, stream=False).good)
    report = reconcile(computed, expected, keys="user")
    assert report.agrees, report


def test_a_range_that_is_not_there_is_refused(bootstrap: str, new_topic: NewTopic) -> None:
    topic, output = new_topic(), new_topic()
    with Producer(bootstrap) as producer:
        producer.send(topic, b"{}").result()
    for given, reason in (
        ({0: (0, 5)}, f"{topic}-0 ends at offset 1, so there is no 4 to replay"),
        ({3: (0, 1)}, f"there is no partition {topic}-3 to replay"),
        ({0: (1, 0)}, "1 to 0 is no range of offsets"),
        ("yesterday", "'yesterday' is no time"),
    ):
        with pytest.raises(RangeError, match=reason):
            replay_points(topic, given, None, output)
    with pytest.raises(RangeError, match="there is no topic 'nowhere'"):
        replay_points("nowhere", None, None, output)


EARLIER = 5_000


def send_earlier(bootstrap: str, output: str) -> None:
    """An earlier history of the output: in transactions, with times of events that go backwards."""
    with Producer(bootstrap, transactional_id=f"earlier-{output}") as producer:
        producer.init_transactions()
        for part in range(5):
            producer.begin_transaction()
            for number in range(EARLIER // 5):
                producer.send(output, b"{}", timestamp_ms=BASE_MS - (part * EARLIER + number) * 1_000)
            producer.commit_transaction()


@pytest.mark.parametrize("has_stamps", [True, False], ids=["stamped by brokers", "stamped by producers"])
def test_an_output_with_a_long_history_is_read_where_clocks_of_brokers_prove_enough(
    bootstrap: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch, has_stamps: bool
) -> None:
    monkeypatch.setattr(appended, "CLOCKS_DIFFER_MS", 0)
    monkeypatch.setattr(appended, "NEAR", 0)
    configs = {**FOR_EVER, **({"message.timestamp.type": "LogAppendTime"} if has_stamps else {})}
    topic, output = new_topic(partitions=2, configs=configs), new_topic(configs=FOR_EVER)
    send_earlier(bootstrap, output)
    send_orders(bootstrap, topic)
    # The event's own time, which is before all that the output has, although the record comes last.
    event = sf.timestamp_seconds(sf.lit(BASE_MS // 1_000) - 1_000_000 - sf.col("id"))
    live = points(1_000)(read(topic, SCHEMA, stream=False).good).withColumn("at", event)
    write(live, output, key="user", timestamp="at")
    with monkeypatch.context() as whole:
        whole.setattr(Appended, "narrowed", lambda _, source, beginnings, output: output)
        expected = replay_points(topic, {0: (5, 15), 1: (3, 15)}, None, output, dry_run=True)
    done = replay_points(topic, {0: (5, 15), 1: (3, 15)}, None, output)
    assert (done.input_rows, done.retracted, done.written) == (22, 22, 22)
    assert (expected.input_rows, expected.retracted, expected.written) == (22, 22, 22)
    assert expected.searched >= EARLIER + COUNT
    assert COUNT <= done.searched < EARLIER / 2 if has_stamps else done.searched == expected.searched
    computed = rows_of(effective(output).where("length(value) > 2")).select("id", "points")
    inside = "id % 2 = 0 and id between 10 and 28 or id % 2 = 1 and id between 7 and 29"
    factor = sf.when(sf.expr(inside), 10).otherwise(1_000)
    orders = read(topic, SCHEMA, stream=False).good
    report = reconcile(computed, orders.select("id", (sf.col("amount") * factor).alias("points")), keys="id")
    assert report.agrees, report
