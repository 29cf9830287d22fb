"""Spark's own Kafka connector against Levada: read, write, and a restart from its checkpoint."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from levada import Admin, Consumer, Producer
from levada.client.admin import NewTopic
from levada.client.types import TopicPartition
from levada.spark import session
from tests.brokers import BrokerProcess
from tests.interop.spark_connector import jars

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ROWS = 3_000


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    connector = jars()
    if not connector:
        pytest.skip("Spark's Kafka connector comes from Maven Central, which cannot be reached")
    started = session(settings={"spark.jars": ",".join(str(jar) for jar in connector)})
    yield started
    started.stop()


def test_it_reads_what_our_producer_wrote_as_our_own_source_does(spark: SparkSession, broker: BrokerProcess) -> None:
    fill(broker, "read")
    theirs = table(spark, "kafka", broker, "read")
    ours = table(spark, "levada", broker, "read")
    assert theirs.schema == ours.schema
    assert theirs.count() == ROWS
    assert theirs.exceptAll(ours).count() == 0
    assert ours.exceptAll(theirs).count() == 0


def test_both_understand_the_same_bounds(spark: SparkSession, broker: BrokerProcess) -> None:
    fill(broker, "bounds")
    bounds = {
        "startingOffsets": json.dumps({"bounds": {"0": 10, "1": -2, "2": 700}}),
        "endingOffsets": json.dumps({"bounds": {"0": 20, "1": 5, "2": -1}}),
    }
    theirs = table(spark, "kafka", broker, "bounds", **bounds)
    ours = table(spark, "levada", broker, "bounds", **bounds)
    assert theirs.count() > 0
    assert theirs.exceptAll(ours).count() == ours.exceptAll(theirs).count() == 0


def test_it_writes_what_our_consumer_reads(spark: SparkSession, broker: BrokerProcess) -> None:
    rows = spark.range(ROWS).select(f.col("id").cast("string").alias("key"), f.lit("x").alias("value"))
    rows.write.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap).option("topic", "written").save()
    assert sorted(int(key) for key in keys_of(broker, "written")) == list(range(ROWS))


def test_a_query_goes_on_from_its_checkpoint(spark: SparkSession, broker: BrokerProcess, tmp_path: Path) -> None:
    fill(broker, "stream-in")
    assert copy(spark, broker, "stream-in", "stream-out", tmp_path / "checkpoint") == ROWS
    fill(broker, "stream-in")
    assert copy(spark, broker, "stream-in", "stream-out", tmp_path / "checkpoint") == ROWS
    assert len(keys_of(broker, "stream-out")) == 2 * ROWS


def test_it_reads_only_what_our_sink_has_committed(spark: SparkSession, broker: BrokerProcess) -> None:
    rows = spark.range(ROWS).select(f.col("id").cast("string").alias("value"))
    rows.write.format("levada").mode("append").option("kafka.bootstrap.servers", broker.bootstrap).option(
        "topic", "committed"
    ).save()
    found = table(spark, "kafka", broker, "committed", **{"kafka.isolation.level": "read_committed"})
    assert found.count() == ROWS


def fill(broker: BrokerProcess, topic: str) -> None:
    with Admin(broker.bootstrap) as admin, Producer(broker.bootstrap) as producer:
        # The second time it is there already.
        admin.create_topics([NewTopic(topic, 3)])
        for number in range(ROWS):
            headers = {"number": str(number).encode()} if number % 3 else None
            value = None if number % 10 == 0 else b"value %d" % number
            producer.send(topic, value, key=b"%d" % number, headers=headers, partition=number % 3)


def table(spark: SparkSession, source: str, broker: BrokerProcess, topic: str, **options: str) -> DataFrame:
    reader = spark.read.format(source).option("kafka.bootstrap.servers", broker.bootstrap).option("subscribe", topic)
    return reader.option("includeHeaders", "true").options(**options).load()


def copy(spark: SparkSession, broker: BrokerProcess, source: str, target: str, checkpoint: Path) -> int:
    """All there is now; how many rows that were."""
    stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    stream = stream.option("subscribe", source).option("startingOffsets", "earliest")
    query = (
        stream.load()
        .select("key", "value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("topic", target)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sum(progress["numInputRows"] for progress in query.recentProgress)


def keys_of(broker: BrokerProcess, topic: str) -> list[bytes]:
    found: list[bytes] = []
    with Consumer(broker.bootstrap, auto_offset_reset="earliest") as consumer:
        partitions = [TopicPartition(topic, each.index) for each in consumer.partitions_for(topic)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            found += [record.key or b"" for record in consumer.poll(1.0)]
    return found
