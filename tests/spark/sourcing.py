"""What the tests of the source have in common: records to read, and queries whose batches are kept."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from levada import Admin, Producer
from levada.client.types import OffsetAndMetadata, TopicPartition

END_SECONDS = 60


def send(bootstrap: str, topic: str, values: Iterable[bytes], partition: int | None = None, **settings: Any) -> None:
    with Producer(bootstrap, **settings) as producer:
        for value in values:
            producer.send(topic, value, partition=partition)
        producer.flush()


def batch(spark: SparkSession, bootstrap: str, **options: object) -> DataFrame:
    given = {name: str(value) for name, value in options.items()}
    return spark.read.format("levada").option("kafka.bootstrap.servers", bootstrap).options(**given).load()


def stream(spark: SparkSession, bootstrap: str, **options: object) -> DataFrame:
    given = {name: str(value) for name, value in options.items()}
    return spark.readStream.format("levada").option("kafka.bootstrap.servers", bootstrap).options(**given).load()


def values(frame: DataFrame) -> list[bytes]:
    return sorted(bytes(row.value) for row in frame.select("value").collect())


@dataclass
class Kept:
    """What each batch of a query had, by its id; a batch that is repeated replaces itself."""

    batches: dict[int, list[Row]] = field(default_factory=dict)

    def keep(self, frame: DataFrame, batch_id: int) -> None:
        self.batches[batch_id] = frame.collect()

    @property
    def values(self) -> list[bytes]:
        return sorted(bytes(row.value) for rows in self.batches.values() for row in rows)

    @property
    def sizes(self) -> list[int]:
        return [len(self.batches[batch_id]) for batch_id in sorted(self.batches)]


def start(frame: DataFrame, checkpoint: Path, kept: Kept, **trigger: Any) -> StreamingQuery:
    writer = frame.writeStream.foreachBatch(kept.keep).option("checkpointLocation", str(checkpoint))
    return writer.trigger(**(trigger or {"processingTime": "0 seconds"})).start()


def run_available(frame: DataFrame, checkpoint: Path, kept: Kept | None = None) -> Kept:
    """All that is there now, in as many batches as it takes."""
    kept = kept or Kept()
    query = start(frame, checkpoint, kept, availableNow=True)
    assert query.awaitTermination(END_SECONDS)
    return kept


def committed(bootstrap: str, group_id: str) -> dict[TopicPartition, int]:
    with Admin(bootstrap) as admin:
        found = admin.list_group_offsets([group_id])[group_id]
    return {each: offset.offset for each, offset in found.items() if isinstance(offset, OffsetAndMetadata)}


def numbered(count: int, first: int = 0) -> Sequence[bytes]:
    return [b"%06d" % number for number in range(first, first + count)]
