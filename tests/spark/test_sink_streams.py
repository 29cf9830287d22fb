"""Streaming writes with a real Spark: replays, restarts, other partition counts, foreachBatch."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from levada import Admin
from levada.client.admin import TransactionState
from tests.spark.sink_checks import check_nothing_hangs, committed_records, numbers

FIRST_SECOND = 1_700_000_000
"""When the first file was written."""


class Stream:
    """Files with a number a line, copied to a topic by a query that runs until it has all of them."""

    def __init__(self, spark: SparkSession, bootstrap: str, topic: str, directory: Path) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.topic = topic
        self.checkpoint = directory / "checkpoint"
        self._input = directory / "input"
        self._input.mkdir()

    def add(self, *given: int) -> None:
        number = len(list(self._input.iterdir()))
        path = self._input / f"{number:03}.txt"
        path.write_text("".join(f"{each}\n" for each in given))
        # Spark takes the oldest file first.
        os.utime(path, (FIRST_SECOND + number, FIRST_SECOND + number))

    def rows(self) -> DataFrame:
        return self.spark.readStream.option("maxFilesPerTrigger", 1).text(str(self._input))

    def run(self, rows: DataFrame | None = None, **options: str) -> None:
        writer = (self.rows() if rows is None else rows).writeStream.format("levada").options(**options)
        query = (
            writer.option("kafka.bootstrap.servers", self.bootstrap)
            .option("topic", self.topic)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def forget_last_commit(self) -> None:
        """As if the driver had died after the sink's commit and before Spark's own note of it."""
        commits = sorted((self.checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        commits[-1].unlink()
        (self.checkpoint / "commits" / f".{commits[-1].name}.crc").unlink(missing_ok=True)

    @property
    def query_id(self) -> str:
        found: str = json.loads((self.checkpoint / "metadata").read_text())["id"]
        return found


@pytest.fixture
def stream(spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path) -> Stream:
    return Stream(spark, bootstrap, new_topic(partitions=2), tmp_path)


def test_a_replayed_batch_is_not_written_twice(stream: Stream) -> None:
    for number in range(3):
        stream.add(number)
    stream.run()
    stream.forget_last_commit()
    stream.add(3)
    stream.run()
    assert numbers(stream.bootstrap, stream.topic) == [0, 1, 2, 3]
    check_nothing_hangs(stream.bootstrap, stream.topic)


def test_a_replay_with_other_partitions_writes_nothing_twice(stream: Stream) -> None:
    stream.add(*range(10))
    stream.run(stream.rows().repartition(4))
    stream.forget_last_commit()
    stream.run(stream.rows().repartition(2))
    stream.add(10)
    stream.run(stream.rows().repartition(3))
    assert numbers(stream.bootstrap, stream.topic) == list(range(11))
    check_nothing_hangs(stream.bootstrap, stream.topic)


def test_ids_of_transactions_are_used_again_by_the_next_batches(stream: Stream) -> None:
    for number in range(3):
        stream.add(number)
    stream.run()
    with Admin(stream.bootstrap) as admin:
        ids = [each for each in admin.list_transactions() if stream.query_id in each.transactional_id]
    assert len(ids) == 2
    assert {each.state for each in ids} == {TransactionState.COMPLETE_COMMIT}


def test_an_older_copy_of_the_checkpoint_is_refused(stream: Stream) -> None:
    for number in range(3):
        stream.add(number)
    stream.run()
    for folder in ("commits", "offsets"):
        for path in (stream.checkpoint / folder).iterdir():
            if path.name.lstrip(".").split(".")[0] in ("1", "2"):
                path.unlink()
    with pytest.raises(StreamingQueryException, match="the checkpoint is older than the output"):
        stream.run()
    assert numbers(stream.bootstrap, stream.topic) == [0, 1, 2]


def test_versions_make_writes_of_foreach_batch_exactly_once(stream: Stream) -> None:
    bootstrap, topic = stream.bootstrap, stream.topic
    failures = [1]

    def write(frame: DataFrame, batch_id: int) -> None:
        writer = frame.write.format("levada").option("kafka.bootstrap.servers", bootstrap).option("topic", topic)
        writer.option("txnAppId", f"app-{topic}").option("txnVersion", str(batch_id)).mode("append").save()
        if batch_id == 1 and failures:
            failures.pop()
            raise RuntimeError("after the write")

    def run() -> None:
        options = {"checkpointLocation": str(stream.checkpoint)}
        query = stream.rows().writeStream.foreachBatch(write).options(**options).trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()

    for number in range(3):
        stream.add(number)
    with pytest.raises(StreamingQueryException, match="after the write"):
        run()
    run()
    assert numbers(bootstrap, topic) == [0, 1, 2]
    check_nothing_hangs(bootstrap, topic)


def test_batches_of_a_partition_come_in_their_order(stream: Stream) -> None:
    for number in range(4):
        stream.add(number)
    stream.run(stream.rows().selectExpr("value", "0 partition"))
    records = [record for record in committed_records(stream.bootstrap, stream.topic) if record.partition == 0]
    assert [int(record.value or b"") for record in records] == [0, 1, 2, 3]
