"""Which records of an output came from a part of its input, as their stamps tell."""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from levada.spark.history.hops import TRACE_HEADER, Coordinates
from levada.spark.history.ranges import TopicRange
from levada.spark.history.trace import stamped_type

INSIDE = "_inside"


@dataclass(frozen=True, slots=True)
class Straddling:
    """Records that were made from something in the range and from something outside of it."""

    count: int
    example: Coordinates
    needed: str
    """The range that has all of it, in the words of an argument."""


def affected(records: DataFrame, wanted: TopicRange, hop: str | None) -> DataFrame:
    """The records that came from the range, with `_inside`: whether all that they came from in the topic is in it.

    Only the last hop counts, which is the one that wrote the record; with `hop`, only if it has that name. Of an
    aggregate that has not kept all offsets, everything between its first and last counts.
    """
    stamps = sf.filter("headers", lambda each: each["key"] == TRACE_HEADER)
    text = sf.try_element_at(stamps, sf.lit(-1))["value"].cast("string")
    stamped = records.withColumn("_stamp", sf.from_json(text, stamped_type()))
    if hop is not None:
        stamped = stamped.where(sf.col("_stamp.hop") == hop)
    sources = sf.filter(sf.col("_stamp.from"), lambda each: each["topic"] == wanted.topic)
    return (
        stamped.withColumn("_from", sources)
        .where(sf.exists("_from", lambda each: _meets(each, wanted)))
        .withColumn(INSIDE, sf.forall("_from", lambda each: _is_covered(each, wanted)))
        .drop("_stamp")
    )


def straddling(found: DataFrame, wanted: TopicRange) -> Straddling | None:
    outside = found.where(~sf.col(INSIDE)).persist()
    try:
        example = outside.orderBy("topic", "partition", "offset").first()
        if example is None:
            return None
        source = sf.explode("_from").alias("each")
        bounds = (
            outside.select(source)
            .groupBy("each.partition")
            .agg(
                sf.min(sf.coalesce("each.first", "each.offset")).alias("first"),
                sf.max(sf.coalesce("each.last", "each.offset")).alias("last"),
            )
        )
        needed = {number: (each.start, each.end) for number, each in wanted.partitions.items()}
        for row in bounds.collect():
            start, end = needed.get(row["partition"], (row["first"], row["last"] + 1))
            needed[row["partition"]] = (min(start, row["first"]), max(end, row["last"] + 1))
        place = Coordinates(example["topic"], example["partition"], example["offset"])
        return Straddling(outside.count(), place, str(dict(sorted(needed.items()))))
    finally:
        outside.unpersist()


def _meets(source: Column, wanted: TopicRange) -> Column:
    start, end = _bounds(source, wanted)
    listed = sf.exists(source["offsets"], lambda offset: (offset >= start) & (offset < end))
    overlapping = (source["first"] < end) & (source["last"] >= start)
    return sf.coalesce(_by_kind(source, listed, overlapping, start, end), sf.lit(False))


def _is_covered(source: Column, wanted: TopicRange) -> Column:
    start, end = _bounds(source, wanted)
    within = (source["first"] >= start) & (source["last"] < end)
    return sf.coalesce(_by_kind(source, within, within, start, end), sf.lit(False))


def _by_kind(source: Column, listed: Column, ranged: Column, start: Column, end: Column) -> Column:
    """One record, an aggregate that knows all its offsets, or one that knows their range."""
    single = (source["offset"] >= start) & (source["offset"] < end)
    knows_all = sf.size(source["offsets"]) == source["count"]
    return sf.when(source["offset"].isNotNull(), single).when(knows_all, listed).otherwise(ranged)


def _bounds(source: Column, wanted: TopicRange) -> tuple[Column, Column]:
    """Null for partitions that are not in the range."""
    starts = [word for number, each in wanted.partitions.items() for word in (sf.lit(number), sf.lit(each.start))]
    ends = [word for number, each in wanted.partitions.items() for word in (sf.lit(number), sf.lit(each.end))]
    partition = source["partition"]
    return tuple(sf.try_element_at(sf.create_map(*words), partition).cast("bigint") for words in (starts, ends))  # type: ignore[return-value]
