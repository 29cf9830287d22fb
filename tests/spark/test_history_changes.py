"""The current table of a topic of changes: from scratch in batch, and kept up to date by a stream."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock import Producer
from penstock.spark.history import apply_changes, changes, compacted
from penstock.spark.rows import Rows, read, write

NewTopic = Callable[..., str]
SCHEMA = "op string, id string, city string, version long"
Event = tuple[str, str | None, str | None, int | None]

EVENTS: list[Event] = [
    ("INSERT", "ann", "Rome", 1),
    ("insert", "bob", "Oslo", 1),
    ("c", "cid", "Bonn", 1),
    ("u", "ann", "Bern", 3),
    ("UPDATE", "ann", "late", 2),
    ("DELETE", "bob", None, 2),
    ("d", "cid", None, 2),
    ("c", "cid", "Lima", 3),
]
REPEATED: list[Event] = [EVENTS[0], EVENTS[1], EVENTS[2]]
TABLE = {("ann", "Bern", 3), ("cid", "Lima", 3)}


def send(bootstrap: str, topic: str, events: Iterable[Event], partition: int | None = None) -> None:
    with Producer(bootstrap) as producer:
        for op, key, city, version in events:
            value = {"op": op, "id": key, "city": city, "version": version}
            producer.send(topic, json.dumps(value).encode(), key=(key or "").encode(), partition=partition)


def rows_of(frame: DataFrame) -> set[tuple[object, ...]]:
    return {tuple(row) for row in frame.collect()}


def run(rows: Rows, topic: str, checkpoint: Path) -> None:
    query = write(
        compacted(apply_changes(rows, key="id", order="version")),
        topic,
        key="id",
        format="binary",
        checkpoint=str(checkpoint),
        trigger="available-now",
        bootstrap=None,
    )
    assert query is not None
    query.awaitTermination()


@pytest.fixture(autouse=True)
def brokers(spark: SparkSession, bootstrap: str) -> None:
    spark.conf.set("spark.penstock.bootstrap", bootstrap)


def test_the_table_has_the_latest_row_of_each_key_and_no_deleted_one(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    send(bootstrap, topic, EVENTS + REPEATED)
    table = changes(topic, key="id", order="version", schema=SCHEMA)
    assert table.columns == ["id", "city", "version"]
    assert rows_of(table) == TABLE


def test_offsets_order_changes_unless_something_else_is_named(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    send(bootstrap, topic, EVENTS[:6])
    table = changes(topic, key="id", schema=SCHEMA)
    assert rows_of(table) == {("ann", "late", 2), ("cid", "Bonn", 1)}


def test_of_equal_versions_the_first_counts(spark: SparkSession, bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    send(bootstrap, topic, [("d", "ann", None, 5), ("c", "ann", "Rome", 5), ("c", "bob", "Oslo", 5)])
    assert rows_of(changes(topic, key="id", order="version", schema=SCHEMA)) == {("bob", "Oslo", 5)}


def test_offsets_of_two_partitions_are_no_order(spark: SparkSession, bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    send(bootstrap, topic, EVENTS[:1], partition=0)
    send(bootstrap, topic, EVENTS[3:4], partition=1)
    with pytest.raises(
        PySparkException, match=rf'of \{{"id":"ann"\}}: they are in {topic}-0 and {topic}-1; name a col'
    ):
        changes(topic, key="id", schema=SCHEMA).collect()
    assert rows_of(changes(topic, key="id", order="version", schema=SCHEMA)) == {("ann", "Bern", 3)}


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (("merge", "ann", None, 1), "operation op = 'merge' is none of INSERT, UPDATE, DELETE"),
        ((None, "ann", None, 1), "operation op = null is none of"),
        (("c", None, None, 1), "key 'id' is null"),
        (("c", "ann", None, None), "order 'version' is null"),
    ],
)
def test_a_change_that_cannot_be_applied_is_an_error(spark: SparkSession, event: Event, reason: str) -> None:
    frame = spark.createDataFrame([("c", "bob", "Oslo", 1), event], SCHEMA)  # type: ignore[type-var]
    with pytest.raises(PySparkException, match=reason):
        changes(frame, key="id", order="version").collect()


def test_a_value_that_is_no_change_is_an_error(spark: SparkSession, bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with Producer(bootstrap) as producer:
        producer.send(topic, b"{")
    with pytest.raises(PySparkException, match=f"cannot be read as a change: .* at {topic}-0-0"):
        changes(topic, key="id", schema=SCHEMA).collect()


def test_what_is_missing_is_said_in_one_line(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("c", "ann", "Rome", 1)], SCHEMA)
    with pytest.raises(ValueError, match="nothing orders the changes: keep the column _source, or name"):
        changes(frame, key="id")
    with pytest.raises(ValueError, match="changes have no column 'user'"):
        changes(frame, key="user", order="version")
    with pytest.raises(ValueError, match="need a schema"):
        changes("customers", key="id")


def test_a_stream_keeps_a_table_and_stays_right_after_restarts_repetitions_and_stragglers(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, table = new_topic(partitions=2), new_topic()
    wrong: list[Event] = [("merge", "ann", "nowhere", 9), ("c", None, "nowhere", 9)]
    for events in (EVENTS[:4] + wrong, EVENTS[4:], REPEATED):
        send(bootstrap, topic, events)
        rows = read(topic, SCHEMA, dead_letters=new_topic(), startingOffsets="earliest")
        run(rows, table, tmp_path / "checkpoint")
    written = read(table, "id string, city string, version long", tombstones="keep", stream=False).frame
    history = written.selectExpr("_source.offset", "cast(_source.key as string)", "city", "version").orderBy("offset")
    by_key: dict[str, list[object]] = {"ann": [], "bob": [], "cid": []}
    for _, key, city, _ in history.collect():
        by_key[key].append(city)
    assert by_key == {"ann": ["Bern"], "bob": ["Oslo", None], "cid": ["Bonn", "Lima"]}


def test_rejected_changes_go_to_the_dead_letters_of_the_stream(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, table, dead = new_topic(), new_topic(), new_topic()
    send(bootstrap, topic, [("merge", "ann", "nowhere", 9), ("c", None, "nowhere", 9), ("c", "ann", "x", None)])
    send(bootstrap, topic, EVENTS[:1])
    run(read(topic, SCHEMA, dead_letters=dead, startingOffsets="earliest"), table, tmp_path / "checkpoint")
    letters = read(dead, SCHEMA, stream=False).good.selectExpr(
        "op", "cast(filter(_source.headers, h -> h.key like '%-reason')[0].value as string)"
    )
    assert rows_of(letters) == {
        ("merge", "operation op = 'merge' is none of INSERT, UPDATE, DELETE (or c, u, d)"),
        ("c", "key 'id' is null"),
        ("c", "order 'version' is null"),
    }
    assert read(table, "id string, city string", stream=False).good.select("id", "city").collect() == [("ann", "Rome")]


def test_batch_rows_keep_the_rejected_beside_the_latest(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    send(bootstrap, topic, [*EVENTS, ("merge", "ann", None, 9)])
    applied = apply_changes(read(topic, SCHEMA, stream=False), key="id", order="version")
    assert rows_of(applied.good.select("op", "id")) == {("UPDATE", "ann"), ("DELETE", "bob"), ("INSERT", "cid")}
    assert rows_of(applied.rejected.select("op", "_rejected.stage")) == {("merge", "changes")}
