"""Stamps what a hop writes with the records it came from, row by row or through an aggregation."""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType

from levada.spark.history.hops import TRACE_HEADER
from levada.spark.rows.kept import HEADERS, HEADERS_TYPE, SOURCE, Kind, Rows
from levada.spark.rows.problems import quoted

SOURCES = "_sources"
"""The sources of a group of rows."""

SOURCE_FIELDS = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "bigint",
    "first": "bigint",
    "last": "bigint",
    "count": "bigint",
    "offsets": "array<bigint>",
    "since": "bigint",
    "until": "bigint",
    "hops": "int",
}
"""Those of `hops.Source` in JSON, for both kinds: what is null is left out."""

DEFAULT_LISTED = 20
"""So many sources of a group are known one by one; of the others, their range in each partition."""

RAW_COLUMNS = ("topic", "partition", "offset", "timestamp")


def trace(
    rows: Kind, hop: str, *, sources: Sequence[str] | None = None, run: str | None = None, into: str = HEADERS
) -> Kind:
    """Rows with a header that says where each came from; `write` writes it, `origins` answers from it.

    >>> paid = read("orders", schema="id string, user string, amount double").good.where("amount > 0")
    >>> query = write(trace(paid, "points"), "points", key="user")

    The sources are the column `_source` that `read` gives, or `_sources` that `traced` makes in an aggregation; after a
    join, name the columns that hold them: `sources=["_source", "click_source"]`. A raw frame of the data source works
    as well, and `into="headers"` is the column that the sink takes then. The stamps of earlier hops are kept.
    """
    if isinstance(rows, Rows):
        return rows.with_frame(trace(rows.frame, hop, sources=sources, run=run, into=into))
    found: list[tuple[Column, Column]] = (
        [_of_column(rows, name) for name in sources] if sources else _of_usual_columns(rows, hop)
    )
    stamp = sf.struct(
        sf.lit(hop).alias("hop"),
        # It is the same for all rows of a micro-batch, also when that is run again.
        sf.unix_millis(sf.current_timestamp()).alias("at"),
        sf.lit(run).cast("string").alias("run"),
        sf.flatten(sf.array(*(read_from for read_from, _ in found))).alias("from"),
    )
    own = sf.array(header(TRACE_HEADER, sf.to_json(stamp)))
    parts = [_without_stamps(rows, into), *(earlier for _, earlier in found), own]
    return rows.withColumn(into, sf.concat(*parts))


def traced(
    source: str = SOURCE, *, listed: int = DEFAULT_LISTED, partitions: Mapping[str, int] | None = None
) -> Column:
    """An aggregate, to go into `agg`: the sources of the group, for `trace` to stamp.

    >>> totals = points.groupBy("user").agg(sf.sum("points").alias("points"), traced())
    >>> totals = trace(totals, "totals")

    For each partition of a source it has the first and last offset, the count, and up to `listed` offsets one by one,
    the latest. It keeps about 40 bytes for each row of a group until the group is done; where groups are large, say how
    many partitions the source's topics have, `partitions={"points": 8}`, and it keeps a few numbers for each of
    those instead.
    """
    if listed < 1:
        raise ValueError(f"listed must be at least 1, not {listed}")
    topic, partition, offset = (sf.col(f"{source}.{name}") for name in ("topic", "partition", "offset"))
    at_ms = sf.unix_millis(f"{source}.timestamp")
    one = sf.struct(
        topic.alias("topic"), partition.alias("partition"), offset.alias("offset"), at_ms.alias("timestamp")
    )
    # An outer join leaves rows that have no such source.
    present = sf.when(sf.col(source).isNotNull(), one)
    if partitions is None:
        return _ranges_of(sf.collect_list(present), listed).alias(SOURCES)
    latest = sf.max_by(present, sf.struct(at_ms, topic, partition, offset), listed)
    ranges = [
        _range_of_partition(one, present, name, number) for name, count in partitions.items() for number in range(count)
    ]
    known = sf.transform(
        sf.filter(sf.array(*ranges), lambda each: each["count"] > 0), lambda each: _listing(each, latest)
    )
    missed = sf.count(present) - sf.aggregate(known, sf.lit(0).cast("bigint"), lambda sum, each: sum + each["count"])
    complaint = sf.concat(
        sf.lit("traced(partitions=...) does not know all sources of the group; one is "), sf.max(sf.to_json(present))
    )
    return sf.when(missed == 0, known).otherwise(sf.raise_error(complaint).cast(known_type())).alias(SOURCES)


def header(name: str, value: Column) -> Column:
    """One element of a column of headers."""
    return sf.struct(sf.lit(name).alias("key"), value.cast("binary").alias("value"))


def known_type() -> str:
    """What `traced` gives, in Spark's words."""
    fields = ",".join(f"{name}:{kind}" for name, kind in SOURCE_FIELDS.items())
    return f"array<struct<{fields}>>"


def stamped_type() -> str:
    """What a stamp is in JSON, in Spark's words."""
    return f"struct<hop:string,at:bigint,run:string,from:{known_type()}>"


def source_struct(**values: Column) -> Column:
    return sf.struct(*(values.get(name, sf.lit(None)).cast(kind).alias(name) for name, kind in SOURCE_FIELDS.items()))


def _ranges_of(collected: Column, listed: int) -> Column:
    """The collected rows of a group, as one range for each partition."""
    place = sf.transform(
        collected, lambda row: sf.struct(row["topic"].alias("topic"), row["partition"].alias("partition"))
    )

    def summary(each: Column) -> Column:
        members = sf.filter(
            collected, lambda row: (row["topic"] == each["topic"]) & (row["partition"] == each["partition"])
        )
        offsets = sf.array_sort(sf.transform(members, lambda row: row["offset"]))
        times = sf.transform(members, lambda row: row["timestamp"])
        return source_struct(
            topic=each["topic"],
            partition=each["partition"],
            first=sf.array_min(offsets),
            last=sf.array_max(offsets),
            count=sf.size(offsets),
            offsets=sf.slice(offsets, sf.greatest(sf.size(offsets) - listed + 1, sf.lit(1)), sf.lit(listed)),
            since=sf.array_min(times),
            until=sf.array_max(times),
        )

    return sf.transform(sf.array_sort(sf.array_distinct(place)), summary)


def _range_of_partition(one: Column, present: Column, topic: str, partition: int) -> Column:
    here = sf.when((one["topic"] == topic) & (one["partition"] == partition), present)
    return source_struct(
        topic=sf.lit(topic),
        partition=sf.lit(partition),
        first=sf.min(here["offset"]),
        last=sf.max(here["offset"]),
        count=sf.count(here),
        since=sf.min(here["timestamp"]),
        until=sf.max(here["timestamp"]),
    )


def _listing(each: Column, latest: Column) -> Column:
    members = sf.filter(latest, lambda row: (row["topic"] == each["topic"]) & (row["partition"] == each["partition"]))
    return each.withField("offsets", sf.array_sort(sf.transform(members, lambda row: row["offset"])))


def _of_usual_columns(frame: DataFrame, hop: str) -> list[tuple[Column, Column]]:
    for name in (SOURCES, SOURCE):
        if name in frame.columns:
            return [_of_column(frame, name)]
    if set(RAW_COLUMNS) <= set(frame.columns):
        headers = sf.col("headers") if "headers" in frame.columns else _no_headers()
        return [_of_row(sf.struct(*RAW_COLUMNS, headers.alias("headers")))]
    raise ValueError(f"hop {hop!r} has no sources: keep the column {SOURCE}, or aggregate it with traced()")


def _of_column(frame: DataFrame, name: str) -> tuple[Column, Column]:
    """What it says of the sources, and the stamps of the hops before them."""
    if name not in frame.columns:
        raise ValueError(f"there is no column {name!r} to take sources from, among {', '.join(frame.columns)}")
    if isinstance(frame.schema[name].dataType, ArrayType):
        return sf.coalesce(sf.col(quoted(name)), sf.array().cast(known_type())), _no_headers()
    return _of_row(sf.col(quoted(name)))


def _of_row(source: Column) -> tuple[Column, Column]:
    earlier = sf.coalesce(_stamps_only(source["headers"]), _no_headers())
    count = sf.size(earlier)
    one = source_struct(
        topic=source["topic"],
        partition=source["partition"],
        offset=source["offset"],
        timestamp=sf.unix_millis(source["timestamp"]),
        hops=sf.when(count > 0, count),
    )
    return sf.when(source["topic"].isNotNull(), sf.array(one)).otherwise(sf.array().cast(known_type())), earlier


def _stamps_only(headers: Column) -> Column:
    return sf.filter(headers, lambda each: each["key"] == TRACE_HEADER)


def _without_stamps(frame: DataFrame, name: str) -> Column:
    """The headers that the rows have already; stamps among them were taken along with a source."""
    if name not in frame.columns:
        return _no_headers()
    return sf.coalesce(sf.filter(sf.col(quoted(name)), lambda each: each["key"] != TRACE_HEADER), _no_headers())


def _no_headers() -> Column:
    return sf.array().cast(HEADERS_TYPE)
