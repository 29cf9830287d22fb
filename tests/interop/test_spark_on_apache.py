"""Our Spark source and sink against Apache Kafka itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from levada import Consumer
from levada.client.types import TopicPartition
from levada.spark import session
from tests.interop.apache_broker import ApacheBroker

pytestmark = pytest.mark.usefixtures("apache_jars")

ROWS = 1_000


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    started = session()
    yield started
    started.stop()


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    broker = ApacheBroker(tmp_path / "apache")
    broker.start()
    try:
        yield broker.bootstrap
    finally:
        broker.kill()


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_can_be_written_and_read(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    rows = spark.range(ROWS).select(f.col("id").cast("string").alias("value"))
    write(rows, bootstrap, "plain")
    write(rows, bootstrap, "atomic", delivery="atomic-tasks")
    with pytest.raises(PySparkException, match="cannot commit a batch as a whole"):
        write(rows, bootstrap, "refused", delivery="exactly-once")
    for topic in ("plain", "atomic"):
        found = spark.read.format("levada").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
        assert found.load().select("value").distinct().count() == ROWS
    assert copied(spark, bootstrap, "plain", "copy", tmp_path) == ROWS


def write(rows: DataFrame, bootstrap: str, topic: str, **options: str) -> None:
    writer = rows.write.format("levada").mode("append").option("kafka.bootstrap.servers", bootstrap)
    writer.option("topic", topic).options(**options).save()


def copied(spark: SparkSession, bootstrap: str, source: str, target: str, directory: Path) -> int:
    stream = spark.readStream.format("levada").option("kafka.bootstrap.servers", bootstrap)
    query = (
        stream.option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
        .select("value")
        .writeStream.format("levada")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    partition = TopicPartition(target, 0)
    with Consumer(bootstrap) as consumer:
        return consumer.end_offsets([partition])[partition]
