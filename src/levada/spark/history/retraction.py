"""Retractions: records that take back others, and topics as they are for readers that honour them."""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from levada.spark.history.hops import RETRACTS_HEADER
from levada.spark.rows.reading import running_session
from levada.spark.sessions import bootstrap_of

COORDINATES = ("topic", "partition", "offset")
PLACE = r"^(.*)-(\d+)-(\d+)$"


def effective(
    records: str | DataFrame, *, spark: SparkSession | None = None, bootstrap: str | None = None
) -> DataFrame:
    """A topic without what was retracted, and without the retractions: what a reader that honours them has.

    >>> right = effective("points")
    >>> right.columns
    ['key', 'value', 'topic', 'partition', 'offset', 'timestamp', 'timestampType', 'headers']

    Also takes a frame of the data source that was read as a batch, with `includeHeaders`.
    """
    frame = topic_frame(records, spark=spark, bootstrap=bootstrap) if isinstance(records, str) else records
    if frame.isStreaming:
        raise ValueError("a stream cannot know what will be retracted: read the topic as a batch")
    missing = [name for name in (*COORDINATES, "headers") if name not in frame.columns]
    if missing:
        raise ValueError(f"retractions need the column {missing[0]!r}: read the topic with includeHeaders=true")
    marked = frame.withColumn("_retracts", retracted_place(sf.col("headers")))
    retracted = marked.where(sf.col("_retracts").isNotNull()).select("_retracts.*").distinct()
    others = marked.where(sf.col("_retracts").isNull())
    return others.join(retracted, list(COORDINATES), "left_anti").select(*frame.columns)


def topic_frame(
    topic: str, *, spark: SparkSession | None = None, bootstrap: str | None = None, **options: str
) -> DataFrame:
    """A topic as a batch, with headers."""
    running = running_session(spark)
    reader = running.read.format("levada").option("kafka.bootstrap.servers", bootstrap_of(running, bootstrap))
    if "assign" not in options:
        reader = reader.option("subscribe", topic)
    return reader.option("includeHeaders", "true").options(**options).load()


def retracted_place(headers: Column) -> Column:
    """Topic, partition and offset of the record that a retraction takes back; null for other records."""
    text = header_text(headers, RETRACTS_HEADER)
    place = sf.struct(
        sf.regexp_extract(text, PLACE, 1).alias("topic"),
        sf.regexp_extract(text, PLACE, 2).try_cast("int").alias("partition"),
        sf.regexp_extract(text, PLACE, 3).try_cast("bigint").alias("offset"),
    )
    return sf.when(text.rlike(PLACE), place)


def header_text(headers: Column, name: str) -> Column:
    """The first header of that name, as text; null if there is none."""
    return sf.try_element_at(sf.filter(headers, lambda each: each["key"] == name), sf.lit(1))["value"].cast("string")
