"""Runs a part of a topic through a computation once more, and replaces the output that the wrong one wrote."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from levada import Admin, Consumer
from levada.client.types import TopicPartition
from levada.spark.history.affected import INSIDE, affected, straddling
from levada.spark.history.appended import Appended
from levada.spark.history.hops import RETRACTS_HEADER, RUN_HEADER
from levada.spark.history.ranges import Moment, OffsetRanges, TopicRange
from levada.spark.history.resolving import resolve
from levada.spark.history.retraction import effective, topic_frame
from levada.spark.history.trace import header, trace
from levada.spark.rows.kept import HEADERS, TOPIC, Rows
from levada.spark.rows.reading import Format, Schema, Tombstones, parse, running_session
from levada.spark.rows.writing import outgoing
from levada.spark.sessions import bootstrap_of
from levada.spark.sink.brokers import read_marker
from levada.spark.sink.names import WriteName

Build = Callable[[DataFrame], DataFrame | Rows]
Straddled = Literal["refuse", "keep", "retract"]
RANK, POSITION = "_rank", "_position"
RETRACTION, CORRECTION = 0, 1
VERSION = 1
"""A run writes once."""


class ReplayRefused(ValueError):
    """A replay that would leave wrong output behind; the text is one line that says what to do."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay did, or would do."""

    run: str
    source: TopicRange
    output: str
    input_rows: int
    retracted: int
    written: int
    searched: int = 0
    """Offsets of the output that were read to find what to retract."""
    is_dry: bool = False
    """Nothing was written: it was only asked what would be."""
    was_done: bool = False
    """Nothing was written: this run has been before."""

    def __str__(self) -> str:
        if self.was_done:
            return f"run {self.run} was written to {self.output} before: nothing was done"
        retracts, writes = ("would retract", "write") if self.is_dry else ("retracted", "wrote")
        return (
            f"run {self.run} read {self.input_rows} records ({self.source or 'no offsets'}), "
            f"{retracts} {self.retracted} and {writes} {self.written} in {self.output}"
        )


def replay(
    topic: str,
    start: OffsetRanges | Moment | None = None,
    end: Moment | None = None,
    *,
    build: Build,
    output: str,
    run: str | None = None,
    hop: str | None = None,
    schema: Schema = None,
    format: Format = "binary",
    tombstones: Tombstones = "reject",
    key: str | None = None,
    writing: Mapping[str, Any] | None = None,
    straddled: Straddled = "refuse",
    dry_run: bool = False,
    spark: SparkSession | None = None,
    bootstrap: str | None = None,
) -> Replayed:
    """Read a range of a topic, compute `build` of it, and write that to `output` in place of what is there from it.

    >>> done = replay("orders", "2026-11-15T10:00Z", "2026-11-15T11:00Z", build=points, output="points",
    ...               schema="id string, user string, amount double", key="user", run="fix-1")
    >>> print(done)
    run fix-1 read 3600 records (orders-0 17 to 3616), retracted 3590 and wrote 3600 in points

    The range is offsets by partition, `{0: (5, 90)}`, the second one behind the last; or times, from the first record
    that is not older than `start` to the one before the first that is not older than `end`. `build` gets the good rows
    of `read(topic, schema, format=..., tombstones=...)`, JSON if there is a schema, else the bytes as `value`; and
    returns what `write` would take, with this `key` and the further arguments in `writing`: all as in the live query.

    Which records of the output came from the range is known by their stamps, so `trace` must have been there when they
    were written; with `hop`, only those of that hop count. The output is read from where the clocks of brokers prove
    that it may begin, else all of it. Each gets a retraction: its key, no value, and the header `levada-retracts` with
    topic-partition-offset, in the same partition and before what replaces it. All of it becomes visible at once, has
    the header `levada-run`, and is written once for each `run`. `effective` reads the result. The running query, its
    group and its checkpoint are not touched; what it has not reached yet it will write itself: do not replay that.

    A record that was made from inside and from outside of the range, such as an aggregate, cannot be computed from it:
    that is refused, with the range that would do. `straddled="keep"` leaves such records, `"retract"` takes them back.
    """
    session = running_session(spark)
    servers = bootstrap_of(session, bootstrap)
    name = run or uuid.uuid4().hex[:12]
    wanted, searched = _ranges(servers, topic, start, end, output)
    if was_written(servers, name, output):
        return Replayed(name, wanted, output, 0, 0, 0, is_dry=dry_run, was_done=True)
    wrong = affected(effective(_range_frame(session, servers, searched)), wanted, hop).persist()
    retractions = _retractions(_wanted(wrong, straddled, wanted, output), name)
    records = _range_frame(session, servers, wanted)
    built = _built(records, build, schema, format, tombstones)
    planned = _in_order(retractions, _corrections(built, topic, output, name, hop, key, writing or {})).persist()
    try:
        retracted, written = _counted(planned)
        if not dry_run:
            _write(planned, servers, name, output)
        return Replayed(name, wanted, output, records.count(), retracted, written, searched.size, is_dry=dry_run)
    finally:
        planned.unpersist()
        wrong.unpersist()


def _ranges(
    servers: str, topic: str, start: OffsetRanges | Moment | None, end: Moment | None, output: str
) -> tuple[TopicRange, TopicRange]:
    """What is read again, and the part of the output that can have been made from it."""
    with Consumer(servers, isolation_level="read_committed") as consumer, Admin(servers) as admin:
        wanted, there = resolve(consumer, topic, start, end), resolve(consumer, output, None, None)
        beginnings = consumer.beginning_offsets([TopicPartition(topic, number) for number in wanted.partitions])
        return wanted, Appended.of(admin).narrowed(wanted, beginnings, there)


def _wanted(wrong: DataFrame, straddled: Straddled, wanted: TopicRange, output: str) -> DataFrame:
    """The records to retract."""
    if straddled == "refuse":
        _refuse_straddling(wrong, wanted, output)
    return wrong.where(INSIDE) if straddled == "keep" else wrong


def _counted(planned: DataFrame) -> tuple[int, int]:
    """How many retractions and corrections there are to write."""
    counts = {row[RANK]: row["count"] for row in planned.groupBy(RANK).count().collect()}
    return counts.get(RETRACTION, 0), counts.get(CORRECTION, 0)


def was_written(bootstrap: str, run: str, output: str) -> bool:
    """Whether a run of that name has left its marker, which it does in the same decision that makes it visible."""
    with Admin(bootstrap) as admin:
        return read_marker(admin, WriteName.of_application(_application(run), output), is_stable=False) is not None


def _application(run: str) -> str:
    return f"levada-replay-{run}"


def _range_frame(spark: SparkSession, bootstrap: str, wanted: TopicRange) -> DataFrame:
    options = {
        "assign": wanted.assign,
        "startingOffsets": wanted.starting_offsets,
        "endingOffsets": wanted.ending_offsets,
    }
    return topic_frame(wanted.topic, spark=spark, bootstrap=bootstrap, **options)


def _refuse_straddling(wrong: DataFrame, wanted: TopicRange, output: str) -> None:
    found = straddling(wrong, wanted)
    if found is not None:
        raise ReplayRefused(
            f"{found.count} records of {output}, such as {found.example}, were made from inside and from outside of "
            f'the range: replay {found.needed}, or pass straddled="keep" or "retract"'
        )


def _built(records: DataFrame, build: Build, schema: Schema, format: Format, tombstones: Tombstones) -> DataFrame:
    chosen: Format = "json" if schema is not None and format == "binary" else format
    # Rejected rows have been dead letters of the running query already.
    rows = parse(records, schema, format=chosen, dead_letters="replay.dead-letters", tombstones=tombstones).good
    built = build(rows)
    return built.good if isinstance(built, Rows) else built


def _corrections(
    built: DataFrame,
    topic: str,
    output: str,
    run: str,
    hop: str | None,
    key: str | None,
    writing: Mapping[str, Any],
) -> DataFrame:
    if TOPIC in built.columns:
        raise ReplayRefused("what build gives is routed by a column: replay each of its topics by itself")
    stamped = built if HEADERS in built.columns else trace(built, hop or f"replay of {topic}", run=run)
    records = outgoing(stamped, output, key=key, **writing)
    for name, kind in (("key", "binary"), ("partition", "int"), ("timestamp", "timestamp")):
        if name not in records.columns:
            records = records.withColumn(name, sf.lit(None).cast(kind))
    headers = sf.concat("headers", sf.array(header(RUN_HEADER, sf.lit(run))))
    # Rows of one task keep their order, and tasks are in the order of the offsets that they read.
    return records.withColumn("headers", headers).withColumn(POSITION, sf.monotonically_increasing_id())


def _retractions(wrong: DataFrame, run: str) -> DataFrame:
    place = sf.concat_ws("-", "topic", "partition", "offset")
    return wrong.select(
        "key",
        sf.lit(None).cast("binary").alias("value"),
        sf.array(header(RETRACTS_HEADER, place), header(RUN_HEADER, sf.lit(run))).alias("headers"),
        "partition",
        sf.lit(None).cast("timestamp").alias("timestamp"),
        sf.col("offset").alias(POSITION),
    )


def _in_order(retractions: DataFrame, corrections: DataFrame) -> DataFrame:
    """Both with a rank; a correction goes where the last record that it replaces was."""
    earlier = retractions.where(sf.col("key").isNotNull()).groupBy("key")
    places = earlier.agg(sf.max_by("partition", POSITION).alias("_place"))
    placed = corrections.join(places, "key", "left").withColumn("partition", sf.coalesce("partition", "_place"))
    columns = ("key", "value", "headers", "partition", "timestamp", POSITION)
    first = retractions.select(*columns, sf.lit(RETRACTION).alias(RANK))
    return first.unionByName(placed.select(*columns, sf.lit(CORRECTION).alias(RANK)))


def _write(planned: DataFrame, bootstrap: str, run: str, output: str) -> None:
    # All of a key is written by one task, in this order, so that it is read in this order.
    ordered = planned.repartition("key").sortWithinPartitions(RANK, POSITION)
    writer = ordered.drop(RANK, POSITION).write.format("levada").mode("append")
    writer = writer.option("kafka.bootstrap.servers", bootstrap).option("topic", output)
    writer.option("delivery", "exactly-once").option("txnAppId", _application(run)).option("txnVersion", VERSION).save()
