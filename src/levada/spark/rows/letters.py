"""What a rejected row looks like in the dead-letter topic."""

from pyspark.sql import Column
from pyspark.sql import functions as sf

from levada.spark.rows.kept import HEADERS_TYPE, REJECTED, SOURCE

PREFIX = "levada-dead-letter-"
"""The headers that are added to those of the record: reason, stage, topic, partition, offset, timestamp."""


def letter_headers() -> Column:
    """The headers of the record as it was, and where it was and why it is here; a line of a file was in no topic."""
    source, rejected = sf.col(SOURCE), sf.col(REJECTED)
    added = {
        "reason": rejected["reason"],
        "stage": rejected["stage"],
        "topic": source["topic"],
        "partition": source["partition"],
        "offset": source["offset"],
        "timestamp": sf.unix_millis(source["timestamp"]),
    }
    headers = sf.array(*(_header(PREFIX + name, value) for name, value in added.items()))
    before = sf.coalesce(source["headers"], sf.array().cast(HEADERS_TYPE))
    known = sf.filter(headers, lambda each: each["value"].isNotNull())
    return sf.concat(before, known.cast(HEADERS_TYPE))


def _header(name: str, value: Column) -> Column:
    return sf.struct(sf.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))
