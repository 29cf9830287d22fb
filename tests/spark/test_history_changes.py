"""The current table of a topic of changes: from scratch in batch, and kept up to date by a stream."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from levada import Producer
from levada.spark.history import apply_changes, changes, compacted
from levada.spark.history.latest import KeyGroup
from levada.spark.rows import Rows, parse, read, write
from tests.spark.rows_frames import Feed, record
from tests.spark.rows_frames import run as run_frames

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
    spark.conf.set("spark.levada.bootstrap", bootstrap)


def test_the_table_has_the_latest_row_of_each_key_and_no_deleted_one(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    send(bootstrap, topic, EVENTS + REPEATED)
    table = changes(topic, key="id", order="version", schema=SCHEMA)
    assert table.columns == ["id", "city", "version"]
    assert rows_of(table) == TABLE


PLACED = f"{SCHEMA}, topic string, partition int, offset long"


def placed(spark: SparkSession, events: list[Event], partitions: list[int] | None = None) -> DataFrame:
    """Changes as they stand in a topic, one offset after the other."""
    where = partitions or [0] * len(events)
    rows = [(*event, "t", partition, offset) for offset, (event, partition) in enumerate(zip(events, where))]
    return spark.createDataFrame(rows, PLACED)


def table_of(frame: DataFrame, order: str | None) -> set[tuple[object, ...]]:
    return rows_of(changes(frame, key="id", order=order).select("id", "city", "version"))


def test_offsets_order_changes_unless_something_else_is_named(spark: SparkSession) -> None:
    assert table_of(placed(spark, EVENTS[:6]), None) == {("ann", "late", 2), ("cid", "Bonn", 1)}


def test_of_equal_versions_the_first_counts(spark: SparkSession) -> None:
    events: list[Event] = [("d", "ann", None, 5), ("c", "ann", "Rome", 5), ("c", "bob", "Oslo", 5)]
    assert table_of(placed(spark, events), "version") == {("bob", "Oslo", 5)}


def test_offsets_of_two_partitions_are_no_order(spark: SparkSession) -> None:
    frame = placed(spark, [EVENTS[0], EVENTS[3]], [0, 1])
    with pytest.raises(PySparkException, match=r'of {"id":"ann"}: they are in t-0 and t-1; name a column'):
        changes(frame, key="id").collect()
    assert table_of(frame, "version") == {("ann", "Bern", 3)}


def test_a_change_that_cannot_be_applied_is_an_error_of_a_frame(spark: SparkSession) -> None:
    frame = spark.createDataFrame([EVENTS[0], ("merge", "ann", None, 4)], SCHEMA)
    with pytest.raises(PySparkException, match="operation op = 'merge' is none of INSERT, UPDATE, DELETE"):
        changes(frame, key="id", order="version").collect()


def test_a_change_that_cannot_be_applied_is_a_rejected_row_of_rows(spark: SparkSession) -> None:
    wrong: list[Event] = [("merge", "ann", None, 9), ("c", None, None, 9), ("c", "ann", None, None)]
    source = sf.struct("topic", "partition", "offset").alias("_source")
    none = sf.lit(None).cast("struct<reason: string, stage: string>").alias("_rejected")
    frame = placed(spark, [*EVENTS, *wrong]).select("op", "id", "city", "version", source, none)
    applied = apply_changes(Rows(frame, "dead"), key="id", order="version")
    assert rows_of(applied.good.select("op", "id")) == {("UPDATE", "ann"), ("DELETE", "bob"), ("INSERT", "cid")}
    assert rows_of(applied.rejected.select("op", "_rejected.reason", "_rejected.stage")) == {
        ("merge", "operation op = 'merge' is none of INSERT, UPDATE, DELETE (or c, u, d)", "changes"),
        ("INSERT", "key 'id' is null", "changes"),
        ("INSERT", "order 'version' is null", "changes"),
    }


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
    bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, table, dead = new_topic(partitions=2), new_topic(), new_topic()
    wrong: list[Event] = [("merge", "ann", "nowhere", 9), ("c", None, "nowhere", 9)]
    for events in (EVENTS[:4] + wrong, EVENTS[4:], REPEATED):
        send(bootstrap, topic, events)
        rows = read(topic, SCHEMA, dead_letters=dead, startingOffsets="earliest")
        run(rows, table, tmp_path / "checkpoint")
    written = read([table, dead], SCHEMA, dead_letters="none", tombstones="keep", stream=False).frame
    history = written.selectExpr("_source.*", "op", "city").orderBy("offset").collect()
    by_key: dict[str, list[object]] = {"ann": [], "bob": [], "cid": []}
    for row in history:
        if row["topic"] == table:
            by_key[bytes(row["key"]).decode()].append(row["city"])
    assert by_key == {"ann": ["Bern"], "bob": ["Oslo", None], "cid": ["Bonn", "Lima"]}
    assert sorted(row["op"] for row in history if row["topic"] == dead) == ["c", "merge"]


KEYS = 1_000
HOUR = 3_600


def batch(op: str, first: int, version: int, hours: float) -> list[tuple[object, ...]]:
    """Of so many keys from `first` on, as many as give each group of keys a row."""
    events = ({"op": op, "id": f"k{first + number}", "city": op, "version": version} for number in range(KEYS))
    return [record(event, number, seconds=hours * HOUR) for number, event in enumerate(events)]


def applying(feed: Feed, checkpoint: Path, **forgetting: str) -> list[str]:
    """The keys that pass."""
    rows = parse(feed.stream, SCHEMA, dead_letters="none")
    found = run_frames(apply_changes(rows, key="id", order="version", **forgetting).good, checkpoint)
    return [row["id"] for row in found]


def state_of(spark: SparkSession, checkpoint: Path) -> dict[int, KeyGroup]:
    rows = spark.read.format("statestore").load(str(checkpoint)).select("key", "value.groupState.applied").collect()
    return {row["key"][0]: KeyGroup.loads(bytes(row["applied"])) for row in rows}


def test_deleted_keys_are_forgotten_so_that_the_state_stays_as_small_as_the_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed, checkpoint = Feed(spark, tmp_path), tmp_path / "checkpoint"
    for generation in range(3):
        feed.add(batch("c", generation * KEYS, 1, generation * 10))
        feed.add(batch("d", generation * KEYS, 2, generation * 10 + 1))
    assert len(applying(feed, checkpoint, forget_deleted_after="5 hours")) == 6 * KEYS
    groups = state_of(spark, checkpoint)
    assert sum(len(group.keys) for group in groups.values()) == KEYS
    assert sum(len(group.dumps()) for group in groups.values()) < 60 * KEYS, "of 3,000 keys it would be twice as much"

    feed.add([*batch("u", 2 * KEYS, 1, 22), *batch("u", 0, 1, 22)])
    straggling = applying(feed, checkpoint, forget_deleted_after="5 hours")
    assert set(straggling) == {f"k{number}" for number in range(KEYS)}, "only those whose deletion was forgotten"


def test_a_batch_that_is_run_again_forgets_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """Rows from the future: the batch's own time is their clock, which must be that of the first run."""
    feed, checkpoint = Feed(spark, tmp_path), tmp_path / "checkpoint"
    years = 20 * 365 * 24.0
    for events in (batch("d", 0, 2, years), batch("c", KEYS, 1, years)):
        feed.add(events)
        first = applying(feed, checkpoint, forget_after="1 hour")
    before = state_of(spark, checkpoint)
    (checkpoint / "commits" / "1").unlink()
    (checkpoint / "commits" / ".1.crc").unlink()
    assert sorted(applying(feed, checkpoint, forget_after="1 hour")) == sorted(first)
    assert state_of(spark, checkpoint) == before
    assert len({group.clock_us for group in before.values()}) == 1


def test_lengths_that_cannot_be_are_refused(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("c", "ann", "Rome", 1)], SCHEMA)
    with pytest.raises(ValueError, match="forget_deleted_after must be shorter"):
        apply_changes(frame, key="id", order="version", timestamp="version", forget_deleted_after=9, forget_after=9)
    with pytest.raises(ValueError, match="apply_changes: there is no column '_source'; name the column with the time"):
        apply_changes(frame, key="id", order="version", forget_after="1 day")
    with pytest.raises(ValueError, match="forget_after of apply_changes must be a length of time"):
        apply_changes(frame, key="id", order="version", timestamp="version", forget_after="a while")
