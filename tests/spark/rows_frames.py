"""Frames with the columns of the data source, made of a few records, for tests of rows."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Row as SparkRow

COLUMNS = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int, "
    "headers array<struct<key string, value binary>>"
)
RUN_SECONDS = 100
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def record(value: Any, offset: int = 0, *, seconds: float = 0, key: bytes | None = None) -> tuple[Any, ...]:
    """A record of the topic `orders`, so many seconds after noon; what is neither bytes nor None is written as JSON."""
    encoded = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
    return (key, encoded, "orders", 0, offset, NOON + timedelta(seconds=seconds), 0, [("h", b"1")])


def records(spark: SparkSession, values: Iterable[Any]) -> DataFrame:
    """One record for each value, a second apart."""
    rows = [record(value, offset, seconds=offset) for offset, value in enumerate(values)]
    return frame(spark, rows)


def frame(spark: SparkSession, rows: Iterable[tuple[Any, ...]]) -> DataFrame:
    return spark.createDataFrame(list(rows), COLUMNS)


class Feed:
    """A stream of records that come when a test says so: each `add` is a micro-batch."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark = spark
        self._directory = directory / "feed"
        self._directory.mkdir()
        self._count = 0
        self.stream = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(self._directory))

    def add(self, rows: Iterable[tuple[Any, ...]]) -> None:
        written = self._directory.with_name(f"written-{self._count}")
        frame(self._spark, rows).coalesce(1).write.parquet(str(written))
        (part,) = written.glob("*.parquet")
        part.rename(self._directory / f"{self._count:05}.parquet")
        self._count += 1


def run(result: DataFrame, checkpoint: Path) -> list[SparkRow]:
    """All that a stream gives until its source is empty; the next time, what has come since."""
    found: list[SparkRow] = []
    writer = result.writeStream.foreachBatch(lambda batch, number: found.extend(batch.collect())).outputMode("append")
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(RUN_SECONDS)
    finally:
        query.stop()
    return found
